"""What a kernel may not name, as data. One rule a kind; each says what to do instead.

A rule is about whole identifiers among the tokens. Common words are refused only where they are called, members of
`std` and namespaces only where they are used as such, so that a variable may be called `time`, `half` or `kill`.
The library's imports are held to an allow-list besides (`harness.screen.imports`): what hides here shows there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class Rule:
    """What one kind covers: identifiers as they stand, by their beginning or by a full match, and three narrower ways.

    `called` counts only before "(", behind a global "::" and in what a macro stands for, `attributes` in what a macro
    is given, too; `std` behind `std::`, `namespaces` before "::" or behind `namespace`, `types` where a type stands;
    `assembly` is searched for in the text of asm statements. A task with one of `unless` (a dtype of its tensors, or
    the precision it is judged at) may use all of it. The words of a `scoped` rule are functions: a source may have
    members, parameters and variables of their names.
    """

    kind: str
    advice: str
    words: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    pattern: re.Pattern[str] = _NOTHING
    called: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    std: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    assembly: re.Pattern[str] = _NOTHING
    unless: frozenset[str] = frozenset()
    scoped: bool = False

    def covers(self, symbol: str) -> bool:
        """Whether a name is refused however it is used, as a linker's symbol is."""
        return symbol in self.called or symbol in self.std or self.claims(symbol)

    def claims(self, name: str) -> bool:
        """Whether the name alone tells."""
        return name in self.words or name.startswith(self.prefixes) or self.pattern.fullmatch(name) is not None


def words_of(names: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(names.split())


RULES = (
    Rule(
        "vendor_library",
        "Vendor libraries are not a kernel: write the computation with CuTe.",
        prefixes=(
            "cublas",
            "CUBLAS_",
            "cudnn",
            "CUDNN_",
            "cusolver",
            "cusparse",
            "cufft",
            "cutensornet",
            "nvblas",
            "cblas_",
            "mkl_",
            "MKL_",
            "openblas",
            "LAPACKE_",
            "dnnl_",
            "rocblas",
        ),
        pattern=re.compile(r"[sdcz](gemm|gemv|symm|symv|syrk|trmm|trsm|axpy|dot|ger|scal)_"),
        namespaces=words_of("dnnl thrust"),
    ),
    Rule(
        "framework",
        "PyTorch and Python are not linked to a kernel: read the arguments through TensorView.",
        prefixes=("TORCH_", "PYBIND11_", "PyObject", "PyRun_", "PyGILState", "Py_"),
        namespaces=words_of("at torch c10 aten pybind11"),
    ),
    Rule(
        "loading",
        "A kernel may not load code or look functions up by name.",
        words=words_of(
            "dlopen dlsym dlmopen dlvsym dladdr dlinfo dl_iterate_phdr __libc_dlopen_mode __libc_dlsym GetGlobal "
            "GetGlobalRequired SetGlobal LoadFromFile TVMFFIFunctionGetGlobal TVMFFIFunctionSetGlobal "
            "cuGetProcAddress cudaGetDriverEntryPoint cudaGetDriverEntryPointByVersion"
        ),
        prefixes=("cuModule", "cuLibrary", "cudaLibrary", "nvrtc", "nvJitLink", "TVMFFIEnvMod", "TVMFFIEnvRegister"),
    ),
    Rule(
        "surroundings",
        "A kernel may not look at its callers' frames, its thread's block, the linker's tables, the types that are "
        "registered or how many threads there are: it does the same in every process.",
        words=words_of(
            "__builtin_return_address __builtin_extract_return_addr __builtin_frob_return_addr __builtin_frame_address "
            "__builtin_stack_address __builtin_dwarf_cfa __builtin_thread_pointer __builtin_set_thread_pointer "
            "__libc_single_threaded __is_single_threaded __gthread_active_p __gthread_active TVMFFIBacktrace "
            "TracebackMostRecentCallLast FullMessage UpdateBacktrace _GLOBAL_OFFSET_TABLE_ _DYNAMIC _r_debug "
            "_dl_debug_addr __ehdr_start __libc_stack_end __seg_fs __seg_gs TVMFFITypeKeyToIndex TypeKeyToIndex "
            "TVMFFITypeGetOrAllocIndex TVMFFIGetTypeInfo TVMFFIGetTypeAttrColumn TypeAttrColumn TypeIndexToTypeKey "
            "TVMFFIGetCustomAllocator TVMFFIGetVersion"
        ),
        called=words_of("backtrace"),
        prefixes=("_rtld_", "__gthread_"),
        assembly=re.compile(r"%[fg]s\b|\b(?:rd|wr)[fg]sbase\b|\btpidr\w*", re.I),
    ),
    Rule(
        "process",
        "A kernel may not start, end, signal or trace processes; report a wrong argument with TVM_FFI_THROW.",
        words=words_of(
            "popen vfork clone3 execl execle execlp execv execve execvp execvpe execveat fexecve posix_spawn "
            "posix_spawnp ptrace sigaction sigprocmask prctl seccomp setrlimit prlimit _Exit _exit quick_exit "
            "process_vm_readv process_vm_writev setcontext makecontext"
        ),
        called=words_of("system fork clone syscall kill tkill tgkill signal raise exit atexit at_quick_exit alarm"),
        std=words_of("system signal raise exit atexit set_terminate set_new_handler"),
        scoped=True,
    ),
    Rule(
        "thread",
        "A kernel may not start threads of its own: use OpenMP's pragmas.",
        words=words_of("thrd_create jthread sched_setaffinity"),
        # OpenMP's own entry points can start a team that nobody waits for; so can a jump out of a parallel region.
        prefixes=("pthread_", "GOMP_", "GOACC_", "__builtin_GOMP_", "__builtin_GOACC_", "_Unwind_"),
        pattern=re.compile(
            r"(?:__builtin_|_)*(?:sig)?(?:setjmp|longjmp)(?:_\w+)?|__builtin_eh_return|omp_set_(?!(?:nest_)?lock)\w+"
        ),
        std=words_of("thread jthread async this_thread packaged_task"),
        scoped=True,
    ),
    Rule(
        "stream",
        "A kernel launches on the stream that TVMFFIEnvGetStream gives, and on no other; no graphs, events, callbacks.",
        words=words_of(
            "cudaLaunchHostFunc cuLaunchHostFunc cudaStreamPerThread cudaStreamLegacy cudaStreamNonBlocking "
            "getStreamFromPool CU_STREAM_PER_THREAD CU_STREAM_LEGACY"
        ),
        prefixes=(
            "cudaStreamCreate",
            "cudaStreamBeginCapture",
            "cudaStreamEndCapture",
            "cudaStreamAddCallback",
            "cudaStreamWait",
            "cudaGraph",
            "cudaEvent",
            "cuStreamCreate",
            "cuStreamBeginCapture",
            "cuStreamWait",
            "cuGraph",
            "cuEvent",
            "TVMFFIEnvSetStream",
        ),
    ),
    Rule(
        "memory",
        "A kernel works in device memory: its arguments, and scratch from the caller's allocator "
        "(tvm::ffi::Tensor::FromEnvAlloc with TVMFFIEnvTensorAlloc).",
        words=words_of("__managed__ cudaMallocHost cudaHostAlloc cudaMemcpy cudaMemset cudaMemcpyToSymbol"),
        prefixes=(
            "cudaMallocManaged",
            "cudaHostRegister",
            "cudaHostGetDevicePointer",
            "cudaMemAdvise",
            "cudaMemPrefetch",
            "cudaMemPool",
            "cudaDeviceSetMemPool",
            "cudaMemcpyFrom",
            "cudaMemcpyPeer",
            "cudaPointer",
            "cudaExternal",
            "cudaImport",
            "cuMem",
            "cuImport",
            "cuExternal",
        ),
    ),
    Rule(
        "device_state",
        "A kernel may not change the state of the device, its caches or its clocks.",
        words=words_of("cudaDeviceReset cudaSetDevice cudaSetDeviceFlags cudaDeviceSetLimit cudaDeviceSetCacheConfig"),
        prefixes=(
            "cudaStreamSetAttribute",
            "cudaCtxResetPersisting",
            "cuCtx",
            "cudaProfiler",
            "cuProfiler",
            "nvml",
            "cupti",
            "cudaIpc",
            "cuIpc",
            "cudaDeviceEnablePeer",
            "cudaAccessPolicyWindow",
            "cudaLaunchAttributeAccessPolicyWindow",
            "cudaAccessProperty",
        ),
    ),
    Rule(
        "file",
        "A kernel may not reach files, sockets, the environment or memory mappings: its arguments are all it has.",
        words=words_of(
            "fopen fopen64 freopen __basic_file fdopen openat creat opendir mmap mmap64 munmap mremap mprotect "
            "memfd_create shm_open shmget getenv secure_getenv setenv putenv unsetenv environ getaddrinfo mkstemp "
            "sendmsg recvmsg sendfile"
        ),
        called=words_of("open open64 socket socketpair connect bind dup dup2 pipe unlink"),
        std=words_of("ifstream ofstream fstream filebuf filesystem getenv remove_all"),
        scoped=True,
    ),
    Rule(
        "clock",
        "A kernel may not read, set or wait for clocks.",
        words=words_of(
            "clock_gettime clock_settime clock_nanosleep clock_adjtime gettimeofday settimeofday adjtimex timespec_get "
            "nanosleep usleep timer_create timer_settime omp_get_wtime omp_get_wtick clock64 __globaltimer"
        ),
        prefixes=("timerfd_",),
        pattern=re.compile(r"(?:_*|__builtin_ia32_)rd(?:tscp?|pmc|pru)"),
        called=words_of("sleep clock time"),
        std=words_of("chrono clock time"),
        assembly=re.compile(r"\b(?:rdtscp?|rdpmc|rdpru|umwait|tpause|cnt[vp]ct\w*)\b|%(?:clock|globaltimer)\w*", re.I),
        scoped=True,
    ),
    Rule(
        "load_time",
        "A kernel may not run code when its library is loaded or ended, nor place code or data itself.",
        words=words_of(
            "constructor __constructor__ destructor __destructor__ init_priority __init_priority__ ifunc __ifunc__ "
            "TVM_FFI_STATIC_INIT_BLOCK"
        ),
        attributes=words_of("section __section__ alias __alias__ weakref __weakref__"),
    ),
    Rule(
        "precision",
        "This task is judged in float32 or wider: compute in that, without 8-bit and 16-bit types. TF32 may be used "
        "where its products are split so that the error stays that of float32.",
        pattern=re.compile(
            r"half_t|bfloat16_t|float_e\dm\d\w*|float_ue\d\w*|_Float16|__fp16|__bf16|_Float8|nv_(?:half|bfloat16)2?"
            r"|__\w*(?:half|bfloat16|fp8|fp6|fp4)\w*|_mm\w*_cvt\w*_(?:ph|pbh|bh)|_mm\w*_(?:ph|pbh|sh)|_mm\w*_dpbf16\w*"
            r"|_cvt(?:ss_sh|sh_ss)|_tile_dpbf16ps|_tile_dpfp16ps|__builtin_ia32_\w*(?:ps2ph|ps2bf16|bf16ps|fp16ps)\w*"
            r"|(?:SM\d+\w*|G?MMA)_\w*(?:F16|BF16|E4M3|E5M2|F8F6F4|MXF)\w*"
        ),
        types=words_of("half half2 bfloat16"),
        assembly=re.compile(
            r"\.b?f16(?:x2)?\b|\.kind::(?:f16|f8|mxf)|\.[eu]\d[me]\d\w*|vcvtps2ph|vcvtneps2bf16|vcvtne2ps2bf16|vdpbf16ps|\bv\w+[ps]h\b|tdp\w*f16ps"
        ),
        unless=words_of("float16 bfloat16 float8_e4m3fn float8_e5m2"),
    ),
    Rule(
        "fast_math",
        "Intrinsics of reduced accuracy are not allowed here: call the std:: function.",
        words=words_of(
            "__expf __exp10f __logf __log2f __log10f __powf __sinf __cosf __tanf __sincosf __fdividef __tanhf "
            "__use_fast_math__"
        ),
        unless=words_of("float16 bfloat16 float8_e4m3fn float8_e5m2"),
    ),
    Rule(
        "header",
        "Whether a header is there may not be asked: every machine has the same ones.",
        words=words_of("__has_include __has_include_next __has_embed"),
    ),
    Rule(
        "build",
        "A kernel must be the same wherever, whenever and for whatever it is compiled: callers compile it anew.",
        words=words_of(
            "__FILE__ __FILE_NAME__ __BASE_FILE__ __INCLUDE_LEVEL__ __DATE__ __TIME__ __TIMESTAMP__ source_location "
            "__builtin_source_location __builtin_FILE NDEBUG __OPTIMIZE__ __OPTIMIZE_SIZE__ __NO_INLINE__ "
            "__FAST_MATH__ __FINITE_MATH_ONLY__ __PIC__ __pic__ __PIE__ "
            "__SANITIZE_ADDRESS__ __SANITIZE_THREAD__ __SANITIZE_HWADDRESS__ __has_feature"
        ),
    ),
)

DIRECTIVES = words_of("include define undef if ifdef ifndef elif elifdef elifndef else endif error warning pragma")

PRAGMAS = words_of(
    "omp once unroll nounroll ivdep simd vector pack region endregion message clang STDC GCC nv_diagnostic "
    "nv_diag_suppress nv_diag_default nv_diag_warning nv_diag_once nv_exec_check_disable diag_suppress diag_default"
)
"""First words; of GCC's own only `GCC_PRAGMAS`: `dependency` opens files, `system_header` hides warnings."""
FOREIGN = re.compile(r"_[_A-Z].*|(?:TVM|DLPACK|CUTEGEN|ATEN|AT|C10|PYBIND\d*|Py)_.*")
"""Names that the compiler, a header or a build gives a meaning, whatever the source defines."""
KNOWN = re.compile(
    r"__has_\w+|__cplusplus|__cpp_\w+|_OPENMP|__GNUC\w*|__clang\w*|_MSC_VER|__linux__|_WIN32|__BYTE_ORDER__|__ORDER_\w+"
    r"|__(?:AVX|SSE|SSSE|MMX|FMA|F16C|BMI|LZCNT|POPCNT|AMX|AES|GFNI|SHA|ARM_|CUDA|SIZEOF|FLT|DBL|INT|LONG)\w*"
    r"|__(?:x86_64|amd64|aarch64|arm|i386|NVCC)(?:__)?"
)
"""What a condition of the preprocessor may ask for of these: instruction sets, languages, compilers."""
GCC_PRAGMAS = words_of("ivdep unroll novector optimize target push_options pop_options diagnostic")

# What lets the optimizer change a value.
LOOSE_OPTIONS = re.compile(
    r"fast|unsafe|associative|reciprocal|finite|signed-zeros|rounding|contract|excess|fp-model"
    r"|single-precision|limited-range|fortran-rules"
)

HEADERS = re.compile(
    r"(?:cute|cutlass|tvm/ffi|dlpack|cuda|cooperative_groups|crt|cub/block|cub/warp|cub/thread)/[\w./+-]+"
    r"|cuda\.h|cuda_\w+\.hp{0,2}|cooperative_groups\.h|mma\.h|sm_\w+\.hp{0,2}|vector_(?:types|functions)\.hp{0,2}"
    r"|device_\w+\.h|math_constants\.h|math_functions\.h|driver_types\.h|texture_\w+\.h"
    r"|experimental/simd|\w*intrin\.h|arm_(?:neon|sve|fp16|bf16|acle)\.h|omp\.h"
    r"|(?:assert|complex|ctype|errno|fenv|float|inttypes|limits|math|stdalign|stdarg|stdbool|stddef|stdint|stdio|stdlib"
    r"|string|tgmath|malloc|alloca|memory)\.h"
    r"|algorithm|any|array|atomic|bit|bitset|cassert|ccomplex|cctype|cerrno|cfenv|cfloat|charconv|cinttypes|climits"
    r"|cmath|compare|complex|concepts|cstdalign|cstdarg|cstdbool|cstddef|cstdint|cstdio|cstdlib|cstring|ctgmath"
    r"|deque|exception|forward_list|functional|initializer_list|iomanip|ios|iosfwd|iostream|istream|iterator"
    r"|limits|list|locale|map|memory|memory_resource|mutex|new|numbers|numeric|optional|ostream|queue|random|ranges|ratio|set|source_location|span"
    r"|sstream|stack|stdexcept|streambuf|string|string_view|system_error|tuple|type_traits|typeindex|typeinfo|unordered_map"
    r"|unordered_set|utility|valarray|variant|vector|version"
)
"""The names a kernel may include: CuTe and CUTLASS, tvm-ffi, CUDA, intrinsics, OpenMP, the library of C++ less what
gives threads, clocks, files and processes. A mutex is for OpenMP's threads, too."""
