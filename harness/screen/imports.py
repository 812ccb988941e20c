"""What a built library asks the loader for, against what an honest kernel needs.

The source can name a function in ways that no screen of tokens sees through; the library has to name it plainly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from harness.nouns.errors import MachineError
from harness.nouns.refusal import Refusal

_NEEDED = re.compile(
    r"lib(?:stdc\+\+|c|m|mvec|gcc_s|gomp|atomic|pthread|dl|tvm_ffi|cudart)\.so(?:\.[0-9]+)*|ld-linux[\w-]*\.so\.[0-9]+"
)
_C = """
    memcpy memmove memset memcmp memchr strlen strnlen strcmp strncmp strchr strrchr strstr strcpy strncpy malloc calloc
    realloc free aligned_alloc posix_memalign memalign abort qsort bsearch abs labs llabs div ldiv lldiv
    strtol strtoul strtoll strtoull strtod strtof atoi atof printf fprintf sprintf snprintf vprintf vfprintf vsnprintf
    puts putchar fputs fputc putc fwrite fflush stdout stderr isalpha isdigit isspace tolower toupper
    __errno_location __assert_fail __stack_chk_fail __tls_get_addr __libc_single_threaded __gmon_start__
    __printf_chk __fprintf_chk __sprintf_chk __snprintf_chk __vsnprintf_chk __memcpy_chk __memmove_chk __memset_chk
    __strcpy_chk __strncpy_chk __pthread_key_create pthread_mutex_lock pthread_mutex_unlock
    _ITM_registerTMCloneTable _ITM_deregisterTMCloneTable __dso_handle __cpu_model __cpu_indicator_init
    __once_proxy lgamma_r lgammaf_r lgammal_r
    feclearexcept feraiseexcept fetestexcept fegetround fesetround fegetenv fesetenv feholdexcept feupdateenv
"""
# What a stream or a number's formatting asks of the C library, where parts of libstdc++ are linked into the kernel.
_LOCALE = """
    __ctype_get_mb_cur_max __duplocale __freelocale __iswctype_l __newlocale __nl_langinfo_l __strcoll_l __strftime_l
    __strtod_l __strtof_l __strxfrm_l __towlower_l __towupper_l __uselocale __wcscoll_l __wcsftime_l __wcsxfrm_l
    __wctype_l btowc duplocale freelocale mbrtowc mbsnrtowcs mbsrtowcs newlocale pthread_once strdup strerror strtold_l
    __mbsnrtowcs_chk __mbsrtowcs_chk __wmemset_chk strerror_r
    strtod_l strtof_l uselocale wcrtomb wcscmp wcslen wcsnrtombs wctob wmemchr wmemcpy wmemmove wmemset
    __isoc23_strtol __isoc23_strtoll __isoc23_strtoul __isoc23_strtoull
"""
# What the rest of libstdc++ asks for: allowed to a library that holds all of it, where nothing tells the two apart.
_STATIC_STD = """
    bind_textdomain_codeset bindtextdomain dcgettext dgettext gettext fread fseeko64 ftello64 getc ungetc getwc putwc
    ungetwc stdin iconv iconv_open iconv_close syscall arc4random getentropy open read close ioctl setlocale wmemcmp
    secure_getenv
"""
_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10 expm1 fabs fdim floor fma
    fmax fmin fmod frexp hypot ilogb j0 j1 jn y0 y1 yn ldexp lgamma llrint llround log log10 log1p log2 logb lrint
    lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn sin sincos
    sinh sqrt tan tanh tgamma trunc cabs carg cexp cimag clog conj cpow creal csqrt csin ccos ctan csinh ccosh ctanh
"""
_CUDA = """
    cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName cudaFuncSetAttribute cudaFuncGetAttributes
    cudaFuncSetCacheConfig cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaGetDevice
    cudaGetDeviceProperties cudaGetDeviceProperties_v2 cudaDeviceGetAttribute cudaMalloc cudaFree cudaMallocAsync
    cudaFreeAsync cudaMemcpyAsync cudaMemsetAsync cudaMemcpyToSymbolAsync cudaGetSymbolAddress
    cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
    cudaOccupancyMaxActiveClusters cudaOccupancyMaxPotentialClusterSize cudaDeviceSynchronize cudaStreamSynchronize
    cudaGetDriverEntryPoint cudaGetDriverEntryPointByVersion cuTensorMapEncodeTiled cuTensorMapEncodeIm2col
"""
_TVM_FFI = """
    TVMFFIBacktrace TVMFFIBytesFromByteArray TVMFFIDataTypeFromString TVMFFIDataTypeToString TVMFFIEnvGetStream
    TVMFFIEnvTensorAlloc TVMFFIErrorCreate TVMFFIErrorCreateWithCauseAndExtraContext TVMFFIErrorMoveFromRaised
    TVMFFIErrorSetRaised TVMFFIErrorSetRaisedFromCStr TVMFFIErrorSetRaisedFromCStrParts TVMFFIGetTypeAttrColumn
    TVMFFIGetTypeInfo TVMFFIGetVersion TVMFFIObjectDecRef TVMFFIObjectIncRef TVMFFIStringFromByteArray
    TVMFFITensorFromDLPack TVMFFITensorFromDLPackVersioned TVMFFITensorToDLPack TVMFFITensorToDLPackVersioned
    TVMFFITensorCreateUnsafeView TVMFFITypeGetOrAllocIndex TVMFFITypeKeyToIndex TVMFFIAnyViewToOwnedAny
    TVMFFIGetCustomAllocator TVMFFIHandleInitOnce TVMFFIHandleDeinitOnce
"""
_ALLOWED = frozenset(f"{_C} {_LOCALE} {_CUDA} {_TVM_FFI}".split()) | {
    name + suffix for name in _MATH.split() for suffix in ("", "f", "l")
}
# nvcc gives each __device__ function a host body that calls it.
_CUDA_HOST = "exit"
# The compilers' own helpers, OpenMP but for what tells one process's settings from another's, transactional memory
# (asked for by the part of libstdc++ that some installations of g++ link into each library), exceptions, CUDA's
# registration of kernels, operators new and delete, and std.
_ALLOWED_PATTERN = re.compile(
    r"GOMP_\w+|omp_get_(?:num_threads|thread_num|max_threads|num_procs|level|active_level|ancestor_thread_num|team_size"
    r"|max_active_levels)|omp_in_(?:parallel|final)|omp_(?:init|destroy|set|unset|test)_(?:nest_)?lock(?:_with_hint)?"
    r"|_ITM_\w+|__cxa_\w+|_Unwind_\w+|__gxx_personality_\w+|__cuda\w+|_ZGV[bcdeN]\w+"
    r"|__(?:u?div|u?mod|mul|pow|fix|fixuns|float|floatun|extend|trunc|popcount|clz|ctz|bswap|add|sub|neg|cmp|eq|ne|lt|le"
    r"|gt|ge|unord|ash|lsh)[a-z]{2,5}[0-9]?|__atomic_\w+|__aarch64_\w+|_Zn[aw]m\w*|_Zd[al]Pv\w*"
    r"|_ZT[ISTV](?:N10__cxxabiv1|N?St|N?K?S|[a-z]$|P)\w*|_ZN?K?V?S[tosiad]\w+|_ZGTt\w+"
)
# Teams that outlive their call and ways out of a stack among the former; of std what the rules forbid.
_DENIED_PATTERN = re.compile(
    r"GOMP_(?:parallel\w*_start|parallel_end|target|offload|PLUGIN)\w*|_Unwind_(?:ForcedUnwind|Backtrace)"
    r"|\w*(?:6thread|7jthread|11this_thread|filebuf|[io]?fstream|12__basic_file|10filesystem|13random_device|6chrono"
    r"|18condition_variable|22condition_variable_any|13__future_base|_Async_state"
    r"|13set_terminate|14set_unexpected|15set_new_handler)\w*"
)

# Entry points, what C++ shares between libraries (names of templates and of types), the linker's own.
_EXPORTED = re.compile(r"__tvm_ffi_\w+|_Z\w+|_init|_fini|_edata|_end|__bss_start|DW\.ref\.\w+")

_STD_EXPORTS = ("__cxa_", "__gxx_", "__once_", "__dynamic_cast", "__gcclibcxx_")


# Bytes that ask the system for something and come back, wherever they stand: syscall, sysenter or int 0x80, then what
# cleans up or works on registers alone, then a return or a jump. Compilers write the first three nowhere. In the middle
# of honest instructions they do occur, as a number of 1295 or a distance; what follows them there goes nowhere, so that
# nobody could use it.
_CALLS_SYSTEM = re.compile(
    rb"(?:\x0f\x05|\x0f\x34|\xcd\x80)"
    rb"(?:[\x40-\x4f\x66]?"
    rb"(?:[\x50-\x5f\x90-\x99\xc9\xf8-\xfd]|[\x80\x83\xc0\xc1][\xc0-\xff].|[\x04\x0c\x24\x2c\x34\x3c\x70-\x7f\xa8]."
    rb"|(?:[\x00-\x03\x08-\x0b\x20-\x23\x28-\x2b\x30-\x33\x38-\x3b\x84-\x8b\xd0-\xd3]|\x0f\xaf)[\xc0-\xff])){0,6}"
    rb"(?:[\xc2\xc3]|\xf3\xc3|\x41?\xff[\xd0-\xd7\xe0-\xe7]|\xe9|\xeb)",
    re.DOTALL,
)


class _Links(NamedTuple):
    """Libraries needed, symbols used but not defined, symbols defined for others; its code, where x86-64 runs it."""

    needed: list[str]
    wanted: list[str]
    given: list[str]
    code: list[bytes]


def screen_library(library: Path) -> Refusal | None:
    """Why a built library may not be loaded, or None. Raises `MachineError` where the file cannot be read."""
    try:
        with library.open("rb") as file:
            links = _links(ELFFile(file))
    except OSError as failure:
        raise MachineError(
            f"{library} cannot be read: {failure.strerror}.", "Was the cache emptied meanwhile?"
        ) from failure
    except (ELFError, UnicodeDecodeError, ValueError) as failure:
        return Refusal(kind="library", message=f"The built library cannot be read: {failure}.")
    return _refuse_links(links) or _refuse_code(links.code)


def _refuse_links(links: _Links) -> Refusal | None:
    """What the loader would be asked for, and what others would find."""
    for name in links.needed:
        if not _NEEDED.fullmatch(name):
            return Refusal(kind="library", message=f"The kernel was linked to {name}: it may use no library of others.")
    holds_std = not any(name.startswith("libstdc++") for name in links.needed)
    besides = frozenset(_STATIC_STD.split()) if holds_std else frozenset()
    if any(name.startswith("libcudart") for name in links.needed):
        besides |= {_CUDA_HOST}
    for name in links.wanted:
        if name not in besides and not _is_allowed(name):
            message = f"The built kernel calls {name}, which is not among the functions that a kernel may import."
            return Refusal(kind="import", message=message)
    for name in links.given:
        if not _EXPORTED.fullmatch(name) and not (holds_std and name.startswith(_STD_EXPORTS)):
            message = f"The kernel exports {name}: export the entry point alone, with TVM_FFI_DLL_EXPORT_TYPED_FUNC."
            return Refusal(kind="export", message=message)
    return None


def _refuse_code(code: list[bytes]) -> Refusal | None:
    if found := next(filter(None, map(_CALLS_SYSTEM.search, code)), None):
        message = (
            f"The built kernel's code holds the bytes {found[0].hex(' ')}, which call the system: a kernel makes no "
            "system calls. If they are a number of yours, write it otherwise."
        )
        return Refusal(kind="system_call", message=message)
    return None


def _links(elf: ELFFile) -> _Links:
    """What the library says to the loader.

    The table is read by the segments, as the loader does, and by the sections: the segments give its length only
    through a hash of what is exported, which tells nothing where nothing is.
    """
    dynamic = next((part for part in elf.iter_segments() if isinstance(part, DynamicSegment)), None)
    table = elf.get_section_by_name(".dynsym")
    if dynamic is None or not isinstance(table, SymbolTableSection):
        raise ValueError("it has no dynamic segment or no table of symbols")
    tags: Iterator[Any] = dynamic.iter_tags("DT_NEEDED")  # the attribute is there on tags of this type only
    wanted: list[str] = []
    given: list[str] = []
    for symbol in (*dynamic.iter_symbols(), *table.iter_symbols()):
        if symbol.name and symbol["st_info"]["type"] != "STT_SECTION":
            (wanted if symbol["st_shndx"] == "SHN_UNDEF" else given).append(symbol.name)
    runs = elf.get_machine_arch() == "x64"
    code = [part.data() for part in elf.iter_segments() if runs and part["p_type"] == "PT_LOAD" and part["p_flags"] & 1]
    return _Links([tag.needed for tag in tags], wanted, given, code)


def _is_allowed(name: str) -> bool:
    if name in _ALLOWED:
        return True
    return _ALLOWED_PATTERN.fullmatch(name) is not None and _DENIED_PATTERN.fullmatch(name) is None
