"""A command's options as the command line takes them: its own class's, and those that `Settings` says all about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, Protocol, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from graph.cli.options import Existing
from graph.offers import Given, Offer, spelt

_More = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, as often as needed: see `cutegen settings`."),
]


class Options(Protocol):
    """The options of a command: a dataclass whose fields are annotated as typer has it, or with an `Offer`."""

    @property
    def json(self) -> bool:
        """Whether one JSON object is printed."""
        ...


Chosen = TypeVar("Chosen", bound=Options)
Mark = TypeVar("Mark")


class LateCommand(TyperCommand):
    """Its callback gives the command's function, only where that is called or asked for its help.

    `Settings` is slow to import, and the list of commands does without.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:  # typer's own classes of contexts differ by its version
        """The context of the whole command."""
        assert self.callback is not None
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(self.name, help=self.help, epilog=self.epilog)(self.callback())
        try:
            return typer.main.get_command(alone).make_context(info_name, args, parent, **extra)
        except typer.BadParameter as error:
            error.message = _remedied(error)
            raise


def _remedied(error: typer.BadParameter) -> str:
    """What is said of an option or argument, with how the command is called where one is missing."""
    context, missing = error.ctx, error.param
    if type(error).__name__ != "MissingParameter" or context is None or missing is None:
        return error.message.removeprefix("Value error, ")
    taken = [each.name or "" for each in context.command.params if each.param_type_name == "argument"]
    call = " ".join([context.command_path, *map(str.upper, taken)])
    return f"Call it as {call}. {(missing.name or '').upper()}: {getattr(missing, 'help', None) or ''}"


def function_of(options: type[Chosen], work: Callable[[Chosen], int]) -> Callable[..., None]:
    """What typer makes a command of: it ends with the exit code of `work`, which gets the options."""
    hints = get_type_hints(options, include_extras=True)
    offers = {name: offer for name, hint in hints.items() if (offer := _marked(hint, Offer)) is not None}
    paths = {name: path for name, hint in hints.items() if (path := _marked(hint, Existing)) is not None}

    def call(context: typer.Context, **values: Any) -> None:
        from graph.cli.errors import guarded

        for name, offer in offers.items():
            values[name] = _taken(offer, context, values)
        chosen = options(**values)

        def at_once() -> int:
            for name, path in paths.items():
                path.require(getattr(chosen, name))
            return work(chosen)

        raise typer.Exit(guarded(at_once, as_json=chosen.json))

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for field in fields(options):  # type: ignore[arg-type]
        if field.name in offers:
            parameters += _offered(offers[field.name])
        else:
            parameters.append(_parameter(field.name, hints[field.name], field.default))
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


def _marked(hint: Any, kind: type[Mark]) -> Mark | None:
    """What an option is marked with beside what typer has of it."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, kind)), None)


def _taken(offer: Offer, context: typer.Context, values: dict[str, Any]) -> Given:
    """Take the settings out of the values of all options."""
    sources = {name: context.get_parameter_source(name) for name in offer.names}
    return Given(
        values={name: values.pop(name) for name in offer.names},
        typed=frozenset(
            name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"
        ),
        more=tuple(values.pop("more", None) or ()),
    )


def _offered(offer: Offer) -> Iterator[Parameter]:
    """The options of settings: their types, bounds, defaults and help are the settings' own."""
    from nodes.settings import Settings

    for name in offer.names:
        field = Settings.model_fields[name]
        option = typer.Option(
            spelt(name),
            help=(field.description or "").replace("[", r"\["),  # rich would read a tag
            min=bound_of(field.metadata, "ge"),
            max=bound_of(field.metadata, "le"),
        )
        yield _parameter(name, Annotated[field.annotation, option], offer.defaults.get(name, field.default))
    if offer.others:
        yield _parameter("more", _More, None)


def bound_of(metadata: Sequence[object], kind: str) -> float | None:
    """A field's bound: "ge", "gt", "le" or "lt"."""
    return next((getattr(each, kind) for each in metadata if hasattr(each, kind)), None)


def _parameter(name: str, hint: Any, default: object) -> Parameter:
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=Parameter.empty if default is MISSING else default, annotation=hint
    )
