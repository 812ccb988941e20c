"""Inline assembly: allowed where its text can be read and holds neither system calls nor the assembler's directives.

PTX is read by the same rules as the processor's own instructions, since host code stands in the same file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.nouns.refusal import Refusal
from harness.screen.rules import Rule
from harness.screen.tokens import Token

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
