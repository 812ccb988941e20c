"""What of a compiled kernel's own lies in memory that outlives its calls and can be written, as its object file says.

Tables that the compiler fills lie in read-only sections and are none of it. Nor are what compilers add, and the
statics of headers, told by the namespace that their names begin with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from harness.nouns.build import StaticData

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
