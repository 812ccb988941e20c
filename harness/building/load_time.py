"""What of a compiled kernel would run when its library is loaded or unloaded, as its object file says.

C++ runs the initializers of objects outside of functions then, all those of a source in one function that the loader
finds in `.init_array`. Three things there are no kernel's own doing: what <iostream> gives to whoever includes it, up
to g++ 12; containers of std that begin empty, with the note to destroy them at the end; and nvcc's registration of
kernels. They are known by what they call, not by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from harness.nouns.build import StaticData

_ARRAYS = re.compile(r"\.(?:preinit_array|init_array|fini_array|ctors|dtors)(?:\..*)?")
_CODE = re.compile(r"\.(?:init|fini)")
_STREAMS = frozenset(("_ZNSt8ios_base4InitC1Ev", "_ZNSt8ios_base4InitD1Ev", "__dso_handle", "__cxa_atexit"))
_DESTRUCTOR = re.compile(r"_ZNK?St\w+D[12]Ev")
_STREAMS_BYTES, _CONTAINER_BYTES = 64, 96
_CONTAINER_WORDS = 8
"""On x86-64 the function has 39 bytes for the streams, and 40 to 75 for an empty container and the note to destroy it,
more on other processors. What else finds room calls nobody, and writes constants at most."""
_STREAM_OBJECT = "_ZStL8__ioinit"
_GATHERED = "_GLOBAL__sub_I_"
"""Begins the name of the function that holds all initializers of a source."""
_REGISTRATION = "_ZL24__sti____cudaRegisterAllv"
_REGISTERS = re.compile(r"__cuda\w+|atexit|_GLOBAL_OFFSET_TABLE_")
_IFUNC = ("STT_LOOS", "STT_GNU_IFUNC")  # the same number
_PLAIN = re.compile(r"_ZL?(\d+)(\w+)")


@dataclass(frozen=True)
class _Use:
    """What one relocation refers to: a symbol's name, or "" for something in a section; `data` if it is no code.

    Assemblers write a function that is private to its source as a place in the section of code where it stands.
    """

    name: str
    section: int
    address: int
    external: bool
    data: bool


class _Object:
    """An object file, as far as is asked here."""

    def __init__(self, elf: ELFFile) -> None:
        self._elf = elf
        table = elf.get_section_by_name(".symtab")
        if not isinstance(table, SymbolTableSection):
            raise ValueError("the object file has no symbols")
        self._table = table

    @cached_property
    def symbols(self) -> list[Symbol]:
        return list(self._table.iter_symbols())

    def sections(self, named: re.Pattern[str]) -> Iterator[tuple[int, Section]]:
        """Those that are not empty, with their numbers."""
        for number, section in enumerate(self._elf.iter_sections()):
            if named.fullmatch(section.name) and section["sh_size"]:
                yield number, section

    def uses(self, section: int, start: int = 0, size: int | None = None) -> list[_Use]:
        """What the relocations of a part of a section refer to."""
        found = []
        for table in self._elf.iter_sections():
            if isinstance(table, RelocationSection) and table["sh_info"] == section:
                end = start + (size if size is not None else self._elf.get_section(section)["sh_size"])
                found += [self._use(entry) for entry in table.iter_relocations() if start <= entry["r_offset"] < end]
        return found

    def _use(self, entry: object) -> _Use:
        symbol = self.symbols[entry["r_info_sym"]]  # type: ignore[index]
        place = symbol["st_shndx"]
        external = not isinstance(place, int)
        kind = symbol["st_info"]["type"]
        return _Use(
            name=symbol.name if kind != "STT_SECTION" else "",
            section=0 if external else place,
            address=symbol["st_value"] + entry["r_addend"],  # type: ignore[index]
            external=external,
            data=kind in ("STT_SECTION", "STT_OBJECT") and not external and not self._is_code(place),
        )

    def _is_code(self, section: int) -> bool:
        return bool(self._elf.get_section(section)["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)

    def neighbours(self, function: Symbol, known: set[tuple[int, int]]) -> list[str]:
        """The functions of its section that are not known: it can call them, and no relocation tells of that.

        None, where each function was compiled into a section of its own and nobody moved it.
        """
        section = function["st_shndx"]
        functions = (symbol for symbol in self.symbols if symbol["st_info"]["type"] == "STT_FUNC")
        inside = (symbol for symbol in functions if symbol["st_shndx"] == section)
        return [symbol.name for symbol in inside if (section, symbol["st_value"]) not in known]

    def function_at(self, section: int, address: int) -> Symbol | None:
        """The function that begins there."""
        for symbol in self.symbols:
            facts = symbol["st_info"]["type"], symbol["st_shndx"], symbol["st_value"]
            if facts == ("STT_FUNC", section, address):
                return symbol
        return None

    def thing_near(self, use: _Use) -> str:
        """The name of what code refers to: a function, alone in its section, or the variable around the address.

        That is taken less up to 8 bytes, as x86 has it.
        """
        for symbol in self.symbols:
            kind, start = symbol["st_info"]["type"], symbol["st_value"]
            around = use.address + 4 - symbol["st_size"] < start <= use.address + 8
            if symbol["st_shndx"] == use.section and (kind == "STT_FUNC" or (kind == "STT_OBJECT" and around)):
                return symbol.name
        return ""


def load_time_code(file: Path) -> tuple[str, ...]:
    """What runs at load time, by the names of what it is about; empty for an honest kernel."""
    try:
        with file.open("rb") as opened:
            return tuple(dict.fromkeys(_foreign(_Object(ELFFile(opened)))))
    except (ELFError, UnicodeDecodeError, ValueError) as failure:
        return (f"an object file that cannot be read: {failure}",)


def _foreign(found: _Object) -> Iterator[str]:
    for symbol in found.symbols:
        if symbol["st_info"]["type"] in _IFUNC:
            yield _plain(symbol.name)
    for _, section in found.sections(_CODE):
        yield f"section {section.name}"
    entries = []
    for number, section in found.sections(_ARRAYS):
        named = found.uses(number)
        if not named or not section.name.startswith(".init_array"):
            yield f"section {section.name}"
        entries += named
    judged = {(entry.section, entry.address) for entry in entries}
    for entry in entries:
        yield from _strange(found, found.function_at(entry.section, entry.address), judged)


def _strange(found: _Object, function: Symbol | None, judged: set[tuple[int, int]]) -> Iterator[str]:
    """What a function that runs at load time is about, where it is not one of the two that are known.

    `judged` are the places of all that run then.
    """
    if function is None:
        yield "a function without a name"
        return
    yield from map(_plain, found.neighbours(function, judged))
    uses = found.uses(function["st_shndx"], function["st_value"], function["st_size"])
    if not (_is_std(function, uses) or _registers_kernels(function, uses)):
        named = [use.name or found.thing_near(use) for use in uses] if _GATHERED in function.name else []
        own = [name for name in named if name and name not in (*_STREAMS, _STREAM_OBJECT) and not name.startswith(".")]
        yield from map(_plain, own or [function.name])


def _is_std(function: Symbol, uses: list[_Use]) -> bool:
    """Does it start the streams of std and make empty containers of std, and no more?"""
    notes = [use.name for use in uses if use.name not in _STREAMS and _DESTRUCTOR.fullmatch(use.name)]
    others = {use.name for use in uses if not use.data} - {*notes, *_STREAMS}
    placed = {(use.section, use.address) for use in uses if use.data}
    room, words = _STREAMS_BYTES + len(notes) * _CONTAINER_BYTES, 1 + len(notes) * _CONTAINER_WORDS
    return not others and len(placed) <= words and function["st_size"] <= room


def _registers_kernels(function: Symbol, uses: list[_Use]) -> bool:
    calls = [use.name for use in uses if use.external]
    return (
        function.name == _REGISTRATION
        and "__cudaRegisterFatBinary" in calls
        and all(_REGISTERS.fullmatch(name) for name in calls)
    )


def _plain(name: str) -> str:
    """A variable's or a function's own name out of its mangled one; others are kept."""
    match = _PLAIN.fullmatch(name)
    return match[2][: int(match[1])] if match else name


# -- What of a compiled kernel's own lies in memory that outlives its calls and can be written, as its object file  ---

# Tables that the compiler fills lie in read-only sections and are none of it. Nor are what compilers add, and the
# statics of headers, told by the namespace that their names begin with.


_FIXED = re.compile(
    r"\.(?:data\.rel\.ro|init_array|fini_array|ctors|dtors|tm_clone_table)(?:\..*)?|\.data\.DW\.ref\..*"
)
"""Writable while the library is loaded and no longer, or the compiler's own."""
_COMPILERS = re.compile(
    r"DW\.ref\..*|\.gomp_critical_user_\w*|_ZGV.*|_ZT[ISV].*|_ZStL8__ioinit|__dso_handle|__tls_guard|__fatbin\w*|\w*__(?:nv_)?(?:fatDeviceText|cudaFat\w*|fatbin\w*)"
    r"|_ZZL?\d+__device_stub__.*E(?:3__f|8__handle|5__tmp)|_ZZL?\d+_*nv_\w+E5__ref|_ZL\d+__nv_inited_managed_rt"
)
_GUARD = "_ZGV"
_THREADS = "STT_TLS"
_OBJECTS = ("STT_OBJECT", _THREADS, "STT_COMMON")
_OUTERMOST = re.compile(r"_Z(?:GV)?Z*L?N?[VK]*L?(?:(S[tsabiod])|(\d+))")
_LENGTH = re.compile(r"L?(\d+)")
"""Of the name inside of what nvcc puts around all that is private to a source."""
_NAME = re.compile(r"(?=([1-9]\d*)[A-Za-z_])")
_LITERAL = re.compile(r".*L[a-z]n?\d*", re.DOTALL)
_LAST = re.compile(r"E*(?:_\d+|__\d+_)?E*")
_COPY = re.compile(r"\.(?:\d+|constprop|isra|part)(?=\.|$)")


def static_data(file: Path) -> tuple[StaticData, ...]:
    """All that can be written and outlives a call, each by its name; nothing of a file that cannot be read.

    Such a file is refused by what would run at load time (`load_time`).
    """
    try:
        with file.open("rb") as opened:
            return tuple(dict.fromkeys(_found(ELFFile(opened))))
    except (ELFError, UnicodeDecodeError, ValueError):
        return ()


def _found(elf: ELFFile) -> Iterator[StaticData]:
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return
    symbols = list(table.iter_symbols())
    guarded = {symbol.name.removeprefix(_GUARD) for symbol in symbols if symbol.name.startswith(_GUARD)}
    for symbol in symbols:
        name = symbol.name
        if _is_object(symbol) and _is_written(elf, symbol) and not _COMPILERS.fullmatch(name):
            yield StaticData(
                name=plain_name(name),
                within=_outermost(name),
                guarded=name.removeprefix("_Z") in guarded,
                per_thread=symbol["st_info"]["type"] == _THREADS,
            )


def _is_object(symbol: Symbol) -> bool:
    return bool(symbol["st_info"]["type"] in _OBJECTS and symbol["st_size"])


def _is_written(elf: ELFFile, symbol: Symbol) -> bool:
    """Whether it can be once the library is loaded; what has no section yet (`common`) can."""
    place = symbol["st_shndx"]
    if not isinstance(place, int):
        return bool(place == "SHN_COMMON")
    section: Section = elf.get_section(place)
    return bool(section["sh_flags"] & SH_FLAGS.SHF_WRITE) and not _FIXED.fullmatch(section.name)


def _outermost(mangled: str) -> str:
    """The namespace or function that a name begins with; "std" for its abbreviations, nothing for plain names."""
    found = _OUTERMOST.match(mangled)
    if found is None:
        return ""
    if found[1]:
        return "std"
    end = found.end() + int(found[2])
    if mangled.startswith("_INTERNAL_", found.end()) and (inside := _LENGTH.match(mangled, end)):
        return mangled[inside.end() : inside.end() + int(inside[1])]
    return mangled[found.end() : end]


def plain_name(mangled: str) -> str:
    """A variable's own name out of its mangled one; what is not read is kept as it is."""
    if not mangled.startswith("_Z"):
        return _COPY.split(mangled)[0]
    template = ""
    for found in _NAME.finditer(mangled):
        begin = found.start() + len(found[1])
        end = begin + int(found[1])
        if end > len(mangled) or _LITERAL.fullmatch(mangled, 0, found.start()):
            continue
        if _LAST.fullmatch(mangled, end):
            return mangled[begin:end]
        if not template and mangled[end : end + 1] == "I":
            template = mangled[begin:end]
    return template or mangled
