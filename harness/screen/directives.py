"""Preprocessing directives: what may be included, which pragmas, and no names glued together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from harness.nouns.refusal import Refusal
from harness.screen.rules import (
    DIRECTIVES,
    FOREIGN,
    GCC_PRAGMAS,
    HEADERS,
    KNOWN,
    LOOSE_OPTIONS,
    PRAGMAS,
    Rule,
    words_of,
)  # fmt: skip
from harness.screen.tokens import LexicalError, Token, tokenize

_CONDITIONAL = words_of("if ifdef ifndef elif elifdef elifndef")


def refuse_directive(tokens: Sequence[Token], at: int) -> Refusal | None:
    """Judge the directive whose "#" is `tokens[at]`."""
    end = next(k for k in range(at, len(tokens)) if tokens[k].kind == "newline")
    words = tokens[at + 1 : end]
    line = tokens[at].line
    if not words:
        return None
    name = words[0].text
    if name == "include":
        return _refuse_include(words[1:], line)
    if name == "pragma":
        return _refuse_pragma(words[1:], line)
    if name not in DIRECTIVES:
        return Refusal(kind="directive", line=line, message=f"#{name} is not allowed in a kernel.")
    return _refuse_condition(words[1:], line) if name in _CONDITIONAL else None


def pragma_operator(tokens: Sequence[Token], at: int) -> tuple[Token, ...]:
    """The directive that `_Pragma("...")` at `tokens[at]` stands for. Raises `LexicalError` where it cannot be read."""
    line = tokens[at].line
    following = tokens[at + 1 : at + 4]
    if [token.text for token in following[::2]] != ["(", ")"] or not following[1].text.startswith('"'):
        raise LexicalError(line, "_Pragma needs one plain string in its parentheses.")
    text = following[1].text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    try:
        return tuple(replace(token, line=line) for token in tokenize(f"#pragma {text}"))
    except LexicalError as error:
        raise LexicalError(line, f"The text of _Pragma: {error.problem}") from error


def refuse_optimize(tokens: Sequence[Token], at: int) -> Refusal | None:
    """Judge `optimize(...)`, an attribute's or a pragma's, at `tokens[at]`: options that change no value are fine."""
    options = []
    for token in map(tokens.__getitem__, range(at + 1, len(tokens))):  # a slice would copy all that follows
        if token.text == ")" or token.kind == "newline":
            break
        options.append(token)
    loose = [o for o in options if o.kind == "identifier" or LOOSE_OPTIONS.search(o.text) or "\\" in o.text]
    if not loose and LOOSE_OPTIONS.search("".join(o.text.strip('"') for o in options)):
        loose = [o for o in options if o.kind == "string"]  # "fa" "st" are one literal
    if not loose:
        return None
    return Refusal(
        kind="fast_math",
        line=tokens[at].line,
        message=f"{loose[0].text} lets the compiler change values; name options that change none, or leave it out.",
    )


def _refuse_include(words: Sequence[Token], line: int) -> Refusal | None:
    if len(words) != 1 or words[0].kind != "header":
        return Refusal(kind="include", line=line, message="#include needs a name in <> or quotes, not a macro.")
    name = words[0].text[1:-1]
    if HEADERS.fullmatch(name) and ".." not in name:
        return None
    return Refusal(
        kind="include",
        line=line,
        message=f"{words[0].text} may not be included. Headers of CuTe, CUTLASS, tvm-ffi, CUDA, blocks and warps of "
        "cub, OpenMP, intrinsics and the C++ library may, less those for threads, clocks, files and processes.",
    )


def _refuse_condition(words: Sequence[Token], line: int) -> Refusal | None:
    """What is compiled may depend on the machine and on the source's own names, and not on who compiles it."""
    told = False  # within what `__has_attribute(...)` and its like take
    for word in words:
        told = word.text.startswith("__has_") or (told and word.text != ")")
        if word.kind == "identifier" and not told and FOREIGN.fullmatch(word.text) and not KNOWN.fullmatch(word.text):
            message = "may not decide what is compiled: names of the source's own, instruction sets and compilers may."
            return Refusal(kind="build", line=line, message=f"{word.text} {message}")
    return None


def _refuse_pragma(words: Sequence[Token], line: int) -> Refusal | None:
    first = words[0].text if words else ""
    second = words[1].text if len(words) > 1 else ""
    if not words or (first in PRAGMAS and (first != "GCC" or second in GCC_PRAGMAS)):
        return refuse_optimize(words, 1) if (first, second) == ("GCC", "optimize") else None
    shown = f"{first} {second}".strip() if first == "GCC" else first
    return Refusal(kind="pragma", line=line, message=f"#pragma {shown} is not allowed; omp, unroll and GCC ivdep are.")


# -- Inline assembly: allowed where its text can be read and holds neither system calls nor the assembler's directi ---

# PTX is read by the same rules as the processor's own instructions, since host code stands in the same file.


KEYWORDS = frozenset({"asm", "__asm", "__asm__"})
_QUALIFIERS = frozenset({"volatile", "__volatile__", "__volatile", "inline", "__inline__", "goto"})
_ENDS = frozenset({":", "::", ")"})
_LITERAL = re.compile(r'(?:u8|[uUL])?(?:R"([^(]*)\((?P<raw>.*)\)\1"|"(?P<plain>.*)")', re.DOTALL)
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\\\": "\\", "\\'": "'"}

_SYSTEM_CALL = re.compile(r"\b(?:syscall|sysenter|sysexit|svc|swi|hvc|smc|int(?!\s*\$?3\b)(?:\s*\$?\w+)?)\b", re.I)
# Of directives PTX's declarations alone: the assembler's can place any bytes, by their names, as filling, as numbers.
_DIRECTIVE = re.compile(r"(?:^|[;\n\r{}:|])\s*\.(?!reg\b)\w+", re.I)
# What is no dialect's choice of words, but an operand's mask, zeroing, broadcast or rounding on AVX-512: "%{%3%}%{z%}".
_MASK = re.compile(r"%\{(?:%%k[0-7]|%(?:\d+|\[\w+\])|z|sae|r[ndzu]-sae|1to(?:2|4|8|16))%\}", re.I)
# A label of the assembler's own where it is set, or with the number that "%=" gives each copy of a statement. Any other
# ".Long" is a directive, whose letters may be large.
_LABEL = re.compile(r"\.L\w*(?:%=(?!\w)|(?=\s*:(?!:)))")
# Operands and dialects can complete a word that the text does not show: "sys%c0", "{sys|x}call".
_COMPLETED = re.compile(
    r"[A-Za-z0-9_.\]]%[^%]|%[A-Za-z]?\d+[A-Za-z_]|[A-Za-z0-9_.}]\{[^{}]*\||\|[^{}]*\}[A-Za-z0-9_{%]"
)
# An operand can be a whole instruction, "%c0", where it is the address of something called `syscall`; so can the
# second half of one, behind "jmp 1f+2". PTX goes on over the ends of lines, and has no operands with letters.
_PREFIXES = r"(?:(?:rep\w*|lock|notrack|bnd|wait|x(?:acquire|release)|data\d+|addr\d+|rex[\w.]*|[c-gs]s)\s+)*"
_MADE = re.compile(
    rf"(?:^|;|\b\w+\s*:(?!:))\s*\{{?\s*{_PREFIXES}%(?!%)[A-Za-z]?\d|[\n\r]\s*\{{?\s*{_PREFIXES}%[A-Za-z]\d"
    r"|\b(?:j[a-z]{1,5}|callq?|loop\w*)\s+[\w.$]+\s*[-+]",
    re.I,
)
_QUOTED = re.compile(r"""["\\]""")
_WORD = re.compile(r"[\w$.]+")
_OPENS_STATEMENT = re.compile(r"(?:^|[;\n\r{}:]|@!?%{0,2}\w+)\s*$")


def refuse_assembly(tokens: Sequence[Token], at: int, rules: Sequence[Rule]) -> Refusal | None:
    """Judge the statement, or the symbol given to a declaration, whose keyword is `tokens[at]`."""
    after = at + 1
    while after < len(tokens) and tokens[after].text in _QUALIFIERS:
        after += 1
    line = tokens[at].line
    unreadable = _refusal(line, "The text of an asm statement must stand in its parentheses as string literals.")
    if after >= len(tokens) or tokens[after].text != "(":
        return unreadable
    pieces: list[str] = []
    for token in map(tokens.__getitem__, range(after + 1, len(tokens))):  # a slice would copy all that follows
        if token.kind == "string":
            piece = _contents(token.text)
            if piece is None:
                return _refusal(line, r"The text of an asm statement may hold no escapes but \n, \t, \" and \\.")
            pieces.append(piece)
        else:
            return _judge("".join(pieces), line, rules) if token.text in _ENDS else unreadable
    return unreadable


def _judge(text: str, line: int, rules: Sequence[Rule]) -> Refusal | None:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = _MASK.sub(" ", _LABEL.sub("label", text))
    if found := _SYSTEM_CALL.search(text):
        return _refusal(line, f'"{found[0]}" in inline assembly: a kernel makes no system calls.')
    if found := _DIRECTIVE.search(text):
        return _refusal(line, f'"{found[0].strip()}" in inline assembly: write instructions, no assembler directives.')
    if found := _COMPLETED.search(text) or _MADE.search(text) or _QUOTED.search(text):
        shown = found[0].strip()
        return _refusal(line, f"'{shown}' in inline assembly: write instructions and symbols out, without quotes.")
    for rule in rules:
        # A text of one word is a declaration's symbol: `int harmless() asm("system")`.
        word = text.strip() if rule.covers(text.strip()) else _word(text, rule)
        if word:
            return Refusal(kind=rule.kind, line=line, message=f'"{word}" in inline assembly: {rule.advice}')
    return None


def _word(text: str, rule: Rule) -> str:
    """What a rule is against, by its own pattern or as a symbol; "exit" begins an instruction of PTX, too."""
    if found := rule.assembly.search(text):
        return found[0]
    for word in _WORD.finditer(text):
        if rule.claims(word[0]) or (word[0] in rule.called and not _OPENS_STATEMENT.search(text, 0, word.start())):
            return word[0]
    return ""


def _contents(literal: str) -> str | None:
    """What the literal stands for; None where it has escapes that hide text."""
    found = _LITERAL.fullmatch(literal)
    if found is None:
        return None
    if found["raw"] is not None:
        return found["raw"]
    escapes = re.findall(r"\\.", found["plain"])
    if any(escape not in _ESCAPES for escape in escapes):
        return None
    return re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], found["plain"])


def _refusal(line: int, message: str) -> Refusal:
    return Refusal(kind="assembly", line=line, message=message)


# -- Which of a processor's or a GPU's features a source asks for while it runs: it may do something else elsewhere ---


_ASKS = words_of(
    "__builtin_cpu_supports __builtin_cpu_is __cpuid __cpuid_count __cpuidex __get_cpuid __get_cpuid_count "
    "__get_cpuid_max _xgetbv _may_i_use_cpu_feature target_clones __target_clones__ "
    "cudaDevAttrComputeCapabilityMajor cudaDevAttrComputeCapabilityMinor"
)
_ASSEMBLY = re.compile(r"\b(?:cpuid|xgetbv)\b", re.IGNORECASE)
_PROPERTIES = "cudaGetDeviceProperties"
_CAPABILITY = words_of("major minor")


def features_asked(source: str) -> tuple[str, ...]:
    """What the source asks for and where, a phrase each; nothing where it cannot be read.

    What is chosen by the preprocessor is chosen when the source is compiled, for the processor that it is compiled on.
    """
    try:
        tokens = tokenize(source)
    except LexicalError:
        return ()
    has_properties = any(token.text == _PROPERTIES for token in tokens)
    return tuple(
        f"line {token.line} asks for {_what(tokens, at)}"
        for at, token in enumerate(tokens)
        if _asks(tokens, at, has_properties=has_properties)
    )


def _asks(tokens: Sequence[Token], at: int, *, has_properties: bool) -> bool:
    token = tokens[at]
    if token.kind == "identifier":
        member = at > 0 and tokens[at - 1].text in (".", "->")
        return token.text in _ASKS or (has_properties and member and token.text in _CAPABILITY)
    return token.kind == "string" and _ASSEMBLY.search(token.text) is not None


def _what(tokens: Sequence[Token], at: int) -> str:
    """The name, and its argument where that is a word."""
    said = tokens[at].text
    if [token.text for token in tokens[at + 1 : at + 4 : 2]] == ["(", ")"]:
        said += f"({tokens[at + 2].text})"
    return said
