"""A drop-in's forward as Python expressions: parameters, the kernel's arguments within them, and what it returns."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from harness.nouns.form import Form
from harness.nouns.task import Task


@dataclass(frozen=True)
class Check:
    """Where `condition` holds, a call is not what the kernel was made for: `said` is the sentence, an expression."""

    condition: str
    said: str


@dataclass(frozen=True)
class Forward:
    """`made` maps names in the drop-in to classes: "module:qualified name", or ":name" for the reference's own."""

    parameters: str
    passed: str
    """The parameters as a call of the reference's forward gives them."""
    inputs: tuple[str, ...]
    checks: tuple[Check, ...]
    returned: str
    recomputed: str
    """What the reference is called with on the kernel's `inputs`; empty where it is not differentiated."""
    outputs: str
    """The kernel's outputs in the reference's `results`, as a tuple."""
    made: dict[str, str]


@dataclass(frozen=True)
class _Parameter:
    name: str
    default: str | None
    keyword: bool
    form: Form | None = None
    """How it was given; none where the task leaves it out."""
    label: str = ""
    """The name under which the reference takes it, where that is by name alone."""


@dataclass
class _Taking:
    """Goes through the parameters: the expressions of the kernel's inputs, and what else must be as it was."""

    inputs: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def take(self, here: str, form: Form) -> None:
        if form.kind == "value":
            self.inputs.append(here)
        elif form.kind == "constant":
            self.require(here, repr(form.constant))
        else:
            self._require_parts(here, form)
            for place, part in zip(_places(here, form), form.parts, strict=True):
                self.take(place, part)

    def require(self, here: str, wanted: str) -> None:
        said = json.dumps(here).replace("%", "%%")[1:-1]
        self.checks.append(
            Check(
                f"{here} {'is not' if wanted == 'None' else '!='} {wanted}",
                f'"the kernel was made for {said}=%r, not %r" % ({wanted}, {here})',
            )
        )

    def _require_parts(self, here: str, form: Form) -> None:
        if form.kind == "dict":
            keys = ", ".join(map(_literal, form.keys))
            said = f"the kernel was made for {here} with the keys ({keys})"
            self.checks.append(Check(f"list({here}) != [{keys}] and set({here}) != set([{keys}])", json.dumps(said)))
        elif form.kind in ("tuple", "list"):
            said = f"the kernel was made for {here} of {len(form.parts)} parts"
            self.checks.append(Check(f"len({here}) != {len(form.parts)}", json.dumps(said)))


def forward_of(task: Task) -> Forward:
    """The drop-in's forward for a task: with the reference's own parameters where they can be read off its source."""
    taking = _Taking()
    parameters = _parameters(task)
    for parameter in parameters:
        if parameter.form is not None:
            taking.take(parameter.name, parameter.form)
        elif parameter.default is not None:
            taking.require(parameter.name, parameter.default)
    count = task.signature.results
    results = iter(["results"] if count == 1 else [f"results[{k}]" for k in range(count)])
    made: dict[str, str] = {}
    returned = _returned(task.returns, results, made) if task.returns else "results"
    return Forward(
        parameters=_spelled(parameters),
        passed=_passed(parameters),
        inputs=tuple(taking.inputs),
        checks=tuple(taking.checks),
        returned=returned,
        recomputed=_recomputed(task, made) if task.direction == "forward" and not task.signature.state else "",
        outputs=_outputs(task),
        made=made,
    )


def _recomputed(task: Task, made: dict[str, str]) -> str:
    given, by_name = _given(task)
    inputs = iter([f"inputs[{k}]" for k in range(len(task.signature.inputs))])
    return ", ".join(
        f"{label}={here}" if by_name else here
        for label, here in ((label, _returned(form, inputs, made)) for label, form in given.items())
    )


def _outputs(task: Task) -> str:
    if task.returns is None:
        return "(results,)" if task.signature.results == 1 else "tuple(results)"
    taking = _Taking()
    taking.take("results", task.returns)
    return f"({', '.join(taking.inputs)},)"


def _places(here: str, form: Form) -> list[str]:
    if form.kind == "object":
        return [f"{here}.{key}" for key in form.keys]
    return [f"{here}[{_literal(key)}]" for key in form.keys or range(len(form.parts))]


def _returned(form: Form, results: Iterator[str], made: dict[str, str]) -> str:
    if form.kind == "value":
        return next(results)
    if form.kind == "constant":
        return repr(form.constant)
    parts = [_returned(part, results, made) for part in form.parts]
    if form.kind == "object":
        named = ", ".join(f"{key}={part}" for key, part in zip(form.keys, parts, strict=True))
        return f"{_alias(form.type, made)}({named})"
    if form.kind == "dict":
        plain = ", ".join(f"{_literal(key)}: {part}" for key, part in zip(form.keys, parts, strict=True))
        plain = f"{{{plain}}}"
    else:
        plain = (
            f"[{', '.join(parts)}]" if form.kind == "list" else f"({''.join(f'{part}, ' for part in parts).rstrip()})"
        )
    return f"{_alias(form.type, made)}({plain})" if form.type else plain


def _alias(kind: str, made: dict[str, str]) -> str:
    known = {each: name for name, each in made.items()}
    name = known.get(kind, f"_Result{len(made)}")
    made[name] = kind
    return name


def _literal(key: str | int) -> str:
    return json.dumps(key)


def _spelled(parameters: list[_Parameter]) -> str:
    words: list[str] = []
    for parameter in parameters:
        if parameter.keyword and "*" not in words:
            words.append("*")
        words.append(parameter.name if parameter.default is None else f"{parameter.name}={parameter.default}")
    return ", ".join(words)


def _passed(parameters: list[_Parameter]) -> str:
    return ", ".join(
        f"{label}={each.name}" if (label := each.label or (each.name if each.keyword else "")) else each.name
        for each in parameters
    )


def _parameters(task: Task) -> list[_Parameter]:
    """The forward's parameters, each with the form that the task gives it."""
    given, by_name = _given(task)
    known = [
        replace(each, form=given.get(each.name if by_name else str(position)))
        for position, each in enumerate(_declared(task.source))
    ]
    used = sum(each.form is not None and (by_name or not each.keyword) for each in known)
    if used == len(given) and all(each.form is not None or each.default is not None for each in known):
        return known
    return [
        _Parameter(name, None, keyword=False, form=form, label=label if by_name else "")
        for label, name, form in _made_up(task, given)
    ]


def _given(task: Task) -> tuple[dict[str, Form], bool]:
    """The form of each of the forward's arguments by its position, or by its name; and which of the two."""
    if task.takes is None:
        return {str(k): Form(kind="value") for k in range(len(task.signature.inputs))}, False
    by_name = task.takes.kind == "dict"
    keys = task.takes.keys or range(len(task.takes.parts))
    return {str(key): part for key, part in zip(keys, task.takes.parts, strict=True)}, by_name


def _made_up(task: Task, given: dict[str, Form]) -> Iterator[tuple[str, str, Form]]:
    """Each argument's label, a parameter's name by the kernel's arguments that lie in it, and its form."""
    names = iter(task.signature.inputs)
    for label, form in given.items():
        inside = [next(names).name for _ in form.paths]
        name = inside[0].split(".")[0] if inside else label
        yield label, name if name.isidentifier() else f"input{label}", form


def _declared(source: str) -> list[_Parameter]:
    """`Model.forward`'s parameters after self.

    Empty where they cannot be read off the source: an inherited forward, *args, defaults that are computed.
    """
    forward = _method(source, "Model", "forward")
    if forward is None or forward.vararg or forward.kwarg:
        return []
    named = [*forward.posonlyargs, *forward.args][1:]
    first = [None] * (len(named) - len(forward.defaults))
    defaults = [*first, *forward.defaults, *forward.kw_defaults]
    if not all(node is None or _is_literal(node) for node in defaults):
        return []
    return [
        _Parameter(argument.arg, None if default is None else ast.unparse(default), keyword=position >= len(named))
        for position, (argument, default) in enumerate(zip((*named, *forward.kwonlyargs), defaults, strict=True))
    ]


def _is_literal(node: ast.expr) -> bool:
    """A number, perhaps with a sign, a text, a truth value or None."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _method(source: str, class_name: str, name: str) -> ast.arguments | None:
    for outer in ast.parse(source).body:
        if isinstance(outer, ast.ClassDef) and outer.name == class_name:
            for inner in outer.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == name:
                    return inner.args
    return None
