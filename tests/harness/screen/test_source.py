"""Every rule: sources that it refuses, naming its kind, and their honest twins; and the tricks that blind a screen."""

import time

import pytest

from harness.screen.source import MAX_CHARACTERS, screen_source

IEEE = frozenset({"float32", "ieee"})

REFUSED = {
    "vendor_library": [
        "cublasHandle_t handle;", "cublasSgemm(h);", "cudnnCreate(&h);", "cblas_sgemm(1);", "mkl_set_num_threads(1);",
        'extern "C" void sgemm_(char*);', "cusolverDnCreate(&h);", "thrust::sort(a, b);", "openblas_get_config();",
    ],
    "framework": [
        "at::Tensor t;", "torch::relu(x);", "using namespace torch;", "::c10::Half h;", "TORCH_CHECK(true);",
        "PyGILState_Ensure();",
    ],
    "loading": [
        'dlopen("x", 2);', "auto f = dlsym;", 'tvm::ffi::Function::GetGlobal("x");', "cuModuleLoadData(&m, image);",
        "nvrtcCompileProgram(p, 0, nullptr);",
    ],
    "process": [
        'extern "C" int harmless(char const*) __asm__("system");',
        'system("ls");', 'popen("ls", "r");', "fork();", "if (!vfork()) {}", 'execl("a", "b");', "posix_spawn(a);",
        "ptrace(0);", "syscall(39);", "::kill(1, 9);", "signal(11, h);", "sigaction(11, &a, 0);", "std::_Exit(0);",
        'std::system("ls");', "auto f = ::system;",
        'asm("call system@PLT");', 'asm("jmp exit");', "exit(0);", "std::set_terminate(f);",
    ],
    "thread": ["std::thread t(f);", "pthread_create(&t, 0, f, 0);", "std::async(f);", "using std::jthread;",
        "void GOMP_parallel_start(void (*)(void*), void*, unsigned);", "__builtin_GOMP_parallel(f, 0, 2, 0);",
        "__builtin_longjmp(buffer, 1);", "_setjmp(buffer);", 'void team() asm("GOMP_parallel_start");',
        "omp_set_num_threads(4);", "__builtin_eh_return(0, p);",
        'asm("call GOMP_parallel_start@PLT" :: "D"(f));', 'asm("lea GOMP_parallel_start(%%rip), %0" : "=r"(f));',
    ],
    "stream": [
        "cudaStreamCreate(&s);", "cudaStreamCreateWithFlags(&s, 1);", "cudaGraphLaunch(g, s);",
        "cudaLaunchHostFunc(s, f, 0);", "cudaEventRecord(e);", "cudaStreamBeginCapture(s, m);",
        "f<<<1, 1, 0, cudaStreamPerThread>>>();",
    ],
    "device_state": ["cudaDeviceReset();", "cudaDeviceSetLimit(a, b);", "nvmlInit();"],
    "file": [
        'fopen("a", "r");', 'open("a", 0);', 'std::ifstream f("a");', "mmap(0, 1, 1, 1, 3, 0);", "socket(1, 2, 3);",
        'getenv("HOME");', "extern char** environ;", "std::filesystem::path p;", 'memfd_create("a", 0);',
    ],
    "clock": [
        "clock_gettime(1, &t);", "int clock_gettime(int, timespec*) { return 0; }", "__rdtsc();",
        "std::chrono::steady_clock::now();", "settimeofday(&t, 0);", "omp_get_wtime();", "_rdtsc();", "__rdpmc(1);",
        "clock64();", "time(nullptr);", "t = clock();", "std::clock();", 'asm("rdtsc" : "=a"(x));',
        'asm("mov.u64 %0, %%globaltimer;" : "=l"(x));', 'asm("mov.u32 %0, %clock;" : "=r"(x));',
    ],
    "load_time": [
        "__attribute__((constructor)) void f();", "[[gnu::constructor]] void f();",
        "__attribute__((__destructor__)) void f();",
        'void (*p)() __attribute__((section(".init_array"))) = f;', '[[gnu::section(".init_array")]] void (*p)() = f;',
        "void g() __attribute__((ifunc(\"r\")));", "#define EARLY constructor\n",
    ],
    "precision": [
        "cutlass::half_t x;", "__half x;", "half x = y;",
        "float y = half(x);", "y = (half)x;", "vector<half> v;", "__nv_bfloat16 x;",
        "cute::bfloat16_t x;", "_Float16 x;", "_mm512_cvtps_ph(x, 0);", "SM80_16x8x16_F32F16F16F32_TN atom;",
        "cutlass::float_e4m3_t x;", "_mm512_dpbf16_ps(a, b, c);",
        'asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0}, {%1}, {%2}, {%3};" : "+r"(a));',
        'asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(a) : "f"(b), "f"(c));', 'asm("vcvtps2ph $0, %0, %1" : "=x"(a));',
        "_cvtsh_ss(_cvtss_sh(x, 0));", "typedef float h __attribute__((mode(HF)));",
        "typedef float h [[gnu::__mode__(__BF__)]];",
        "half* p = x;", "void f(const half* p);", "f(reinterpret_cast<half*>(p));", "sizeof(half);", "using E = half;",
        "wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;", "std::pair<float, half> x;",
        "template <class E = half> void f();", "__shared__ half2* p;", "nv_half x;", "__floats2half2_rn(a, b);",
        "auto q = __nv_cvt_float_to_fp8(x, m, k);", "__builtin_ia32_vcvtps2ph512_mask(a, 0, b, -1);",
        "SM90::GMMA::MMA_64x64x16_F32F16F16_SS<> a;", 'asm("tcgen05.mma.cta_group::1.kind::f16 [%0], %1;" :: "r"(a));',
        'asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(a) : "f"(b), "f"(c));',
    ],
    "surroundings": [
        "void* p = __builtin_frame_address(1);", "auto p = __builtin_return_address(0);", "extern long _DYNAMIC[];",
        "extern struct r_debug _r_debug;", 'asm("mov %%fs:0, %0" : "=r"(a));', 'asm("rdfsbase %0" : "=r"(a));',
        "auto p = (long __seg_fs*)0;", "extern char _rtld_global[];",
    ],
    "memory": ["cudaMallocManaged(&p, 1);", "__managed__ float kept;", "cudaHostAlloc(&p, 1, 0);", "cuMemMap(a);"],
    "fast_math": [
        "__expf(x);", "__fdividef(a, b);", '#pragma GCC optimize("Ofast,fast-math")\n',
        '__attribute__((optimize("-ffast-math"))) void f();', '__attribute__((optimize("-ffas" "t-math"))) void f();',
        '__attribute__((optimize(LEVEL))) void f();',
        '_Pragma("GCC optimize(\\"fast-math\\")")',
    ],
    "include": [
        "#include </etc/passwd>\n", '#include "/proc/self/environ"\n', '#include "../x.h"\n',
        "#include <cute/../../x>\n",
        "#include <thread>\n", "#include <fstream>\n", "#include <sys/mman.h>\n", "#include <torch/extension.h>\n",
        "#include <cublas_v2.h>\n", "#include <cudnn.h>\n", "#include <unistd.h>\n", "#define H <thread>\n#include H\n",
        "#include <cub/device/device_reduce.cuh>\n", "# /**/ include/**/<thread>\n", "%:include <thread>\n",
    ],
    "header": ["#if __has_include(<a/*b>)\n#endif\nsystem(0); /* */"],
    "build": [
        "int n = sizeof(__FILE__);", "char y = __DATE__[10];", "char s = __TIME__[7];", "auto f = __builtin_FILE();",
        "auto l = std::source_location::current();", "#ifdef __SANITIZE_ADDRESS__\n#endif\n",
        "#ifndef NDEBUG\n#endif\n", "#if defined(TVM_FFI_VERSION_MAJOR)\n#endif\n",
        "#if 0\n#elif defined Py_LIMITED_API\n#endif\n", "%:ifdef __WHO\n%:endif\n",
        "#ifndef CUTEGEN_TENSOR_VIEW\n#define CUTEGEN_TENSOR_VIEW\n#endif\n",
        "#if !defined(_GLIBCXX_USE_CXX11_ABI)\n#endif\n", "#if __has_feature(address_sanitizer)\n#endif\n",
        "#if defined(A) && \\\n defined(_B)\n#define _B\n#endif\n",
    ],
    "paste": ["#define A(x) sys##x\nA(tem)(0);", "#define A(x) sys%:%:x\n"],
    "macro": ["#define O optimize\n", "#define M(x) __mode__ x\n"],
    "directive": ["#import <cmath>\n", "#include_next <cmath>\n", '#line 1 "a"\n', '# 1 "a"\n', '#embed "a"\n'],
    "pragma": ['#pragma GCC dependency "a"\n', "#pragma GCC poison x\n", "#pragma comment(lib)\n"],
    "unreadable": ["int x = 'a", "/* open", "_Pragma(TEXT)", 'char const* s = "a"R"(b)";'],
    "assembly": [
        'asm("syscall");', '__asm__ volatile("int $0x80" ::: "memory");', 'asm("sys" "enter");', 'asm("sys\\x63all");',
        'asm("/**/ .byte 15");',
        'asm(".byte 0x0f, 0x05");', 'asm("nop; .byte 15");', 'asm(R"(.incbin "/etc/passwd")");', 'asm(TEXT);',
        "#define A asm\nA (\"nop\");", 'asm("sys%c0" :: "i"(call));', 'asm("{sys|x}call");', 'asm("nop /* */; svc 0");',
        'asm goto("syscall" :::: l);', 'asm(".{byte|x} 15");', 'asm(".p2alignl 2, 0xc3050f");',
        'asm("nop\\n.insn 15");',
        'asm("%c0" :: "i"(&syscall));', 'asm("nop; rep %c0" :: "i"(&f));', 'asm("1: {%c0|nop}" :: "i"(&f));',
        'asm("nop\\n\\tlock; %P0" :: "i"(&f));', 'asm("nop\\n%c0" :: "i"(&f));',
        'asm("int $0x7f+1");', 'asm("x = 128; int $x");', 'asm("jmp 1f+2; 1: movabs $0x050f, %rax");',
        'asm("call \\"GOMP_x\\"");', 'asm(R"(call a\\137b)");',
        'asm(".Long 0x050f");', 'asm(".L1: .byte 15");', 'asm("int $3%=");', 'asm("sys%{z%}call %0%=");',
        'asm("%{%c0%}");',
        'asm(".L%=: %c0" :: "i"(&f));', 'asm("jmp .L%=+2\\n .L%=: movabs $0x050f, %rax");',
        'asm(".align 4, 15");', 'asm("1: .dc.b 15, 5");',
    ],
}  # fmt: skip

ALLOWED = {
    "conditions on instruction sets, compilers and names of its own": (
        "#if defined(__AVX512F__) && __cplusplus >= 202002L || __has_cpp_attribute(gnu::unused)\n#endif\n"
        "#ifndef TILE\n#define TILE 8\n#endif\n#if TILE > 4 && USE_IT\n#define USE_IT 1\n#endif\n"
    ),
    "comments": "// system(0) cublasSgemm\n/* dlopen fork() <thread>\n asm */ int x;",
    "strings": 'char const* s = "system(0); dlopen"; auto r = R"(fork() #include <thread>)"; char c = \'"\';',
    "names that contain a refused one": (
        "int my_cublas, system_size, reopen, dlopened, fork_join, executed, half_width, skill, mmapped, environment;"
    ),
    "one's own functions of common names": (
        "struct Stage { void signal() { ++n; } int clone(int k) const { return k; } }; s.signal(); auto kill ="
        "[](int) {}; void f() { kill(2); } static inline float pipe(float x) noexcept { return x; } float y = pipe(2);"
        "template <class T> auto* dup(T x) { return x; } auto z = dup(1);"
        "__device__ float raise(float x) { return x; } float w = raise(2); void g() { Stage open(a, b); open(3); }"
    ),
    "members": (
        "class Gate { public: Gate(int n) : open(n), time{0}, section(2) {} void exit(); bool sleep = false;"
        "int open, time, section; int use() { exit(); return sleep ? system(3) : signal(open); } int system(int k);"
        "template <class T> int signal(T x) { return x; } float getenv(float x); };"
        "void Gate::exit() { use(system(3)); } int Gate::system(int k) { return getenv(k) + this->time; }"
        "struct Wide final : public Gate, Other<int> { int all() { return system(2) + Gate::system(1); } };"
        "template <class T> struct Ring { Ring(T n); T socket; void alarm() {} }; template <class T>"
        "Ring<T>::Ring(T n) : socket(n) { alarm(); }"
    ),
    "parameters and variables": (
        "template <class F, class G> void each(F&& open, G const& exit) { for (int i = 0; i < n; ++i) open(exit(i)); }"
        "auto twice = [](auto kill) { return kill(2); }; void f() { auto time = [&](int k) { return k; }; time(3);"
        "for (auto const& sleep : steps) sleep(1); auto [clock, fork] = both(); clock(1); if (auto dup = f()) dup(2);"
        "Fn connect = pick(), bind{}; connect(1); float const time_of = time(2); }"
    ),
    "functions of one's own namespace": (
        "namespace kernel { inline float open(float x) { return x; } float twice(float x) { return open(x); }"
        "static float system(float x, int k) { return open(x); } }"
        "float use(float x) { return kernel::open(x) + kernel::system(x, 2); } namespace kernel { float y = open(3); }"
        "namespace { int signal(int n) { return n; } } int z = signal(3);"
    ),
    "one's own in a macro and in a condition": (
        "struct Lock { void open() {} };\n#define LOCK(x) x.open()\n#ifdef AVX\nstatic int time(int k) { return 1; }\n"
        "int later = time(3);\n#endif\n#if N > 2\nint a;\n#elif N\nint b;\n#else\nint c;\n#endif\n"
    ),
    "common words as a macro's parameters": "#define LOAD(pipe, time) load(pipe, time + 1)\nLOAD(p, 2)",
    "sections without attributes": (
        "#define CEIL(a, b) (((a) + (b) - 1) / (b))\nint section = CEIL(n, 4); f(section, alias); auto alias = x;"
    ),
    "half however it is declared": (
        "float f(float half, int n) { return g(half, n) + half * n; } auto [half, rest] = split(n); g(half, rest);"
    ),
    "others' members of std's names": (
        "my::thread t; cute::async(f); cg::this_thread_block(); p::chrono::now(); cute::open(x);"
    ),
    "a variable called optimize": "int optimize = level; optimize += 1;",
    "a function called mode": "int mode(int x); int f(int mode) { return ::mode(mode); } struct A { int mode(); };",
    "half made from another": "Part half(3);",
    "a pragma without words": "#pragma\nint x;",
    "half as a parameter": "float f(float half, int n) { return g(half, n); }",
    "half computed with": "y = x * half; g(half, 2);",
    "half assigned to": "this->half = 3; g(half, 2);",
    "half as the rest": "auto [rest, half] = split(n); g(half, rest);",
    "half as a template's number": "template <int half> void f() { g(half, 2); int x[half]; h<half>(x); }",
    "half as a macro's": "#define half 16\nint x[2] = {half, half}; g(half, 2);",
    "half as a lambda": "auto half = [](float x) { return x / 2; }; y = half(x);",
    "half of an enumeration": "enum class Part { half, full }; Part p = Part::half; f(Part::half, 2);",
    "locks": "omp_lock_t l; omp_init_lock(&l); omp_set_lock(&l); omp_unset_lock(&l); omp_set_nest_lock(&m);",
    "suffixes": 'auto s = "a"sv; auto t = "b"s + 1_c; f("%"PRId64"\\n");',
    "packed": "#pragma pack(push, 1)\nstruct A {};\n#pragma pack(pop)\n#pragma nv_diagnostic push\n#pragma simd\n",
    "ends of threads": 'asm("{ .reg .pred p; @p exit; @!p exit; }"); asm("exit;"); asm("nanosleep.u32 20;");',
    "vectors of operands": (
        'asm("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a) : "l"(p));'
        'asm("st.v2.f32 [%0],\\n {%1, %2};" :: "l"(p));'
        'asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32\\n{%0, %1},\\n %2, %3;" : "+f"(d));'
    ),
    "displacements and jumps": 'asm("1: mov %c2(%1), %0\\n jnz 1b" : "=r"(x) : "r"(p), "i"(8)); asm("int3");',
    "masks and labels": (
        'asm("vmovups (%1), %0%{%2%}%{z%}" : "=v"(a) : "r"(p), "Yk"(m)); asm("vaddps (%1)%{1to16%}, %0, %0 %{%%k1%}");'
        'asm("vaddps %[b], %[a], %[a]%{%[k]%}\\n" : [a] "+v"(a)); asm("vaddps %{rn-sae%}, %0, %0, %0" : "+v"(a));'
        'asm(".Lloop%=:\\n\\tdec %0\\n\\tjnz .Lloop%=" : "+r"(n)); asm goto("jmp %l[done]" :::: done);'
        'asm(".Lagain: dec %0; jnz .Lagain" : "+r"(n)); asm("2:\\n\\tdecq %0\\n\\tjnz 2b" : "+r"(n));'
    ),
    "common words as variables": "int kill = 1, open = 2, signal = kill + open, exit = half * 3, at = half;",
    "members of the same name": "std::vector<int> v; v.at(0); file.open(); p->system(1); std::bind(f); x.connect(y);",
    "half as a number": "float half = 0.5f; x = half * y; if (i < half and half > 3) y[half] = (half) * 2;",
    "integer atoms": "SM75_U32x4_LDSM_N a; SM80_CP_ASYNC_CACHEALWAYS<uint128_t> b; SM80_16x8x4_F64F64F64F64_TN c;",
    "openmp": "#pragma omp parallel for simd reduction(+ : s)\nf();\n_Pragma(\"omp simd\")\nomp_get_thread_num();",
    "pragmas": "#pragma once\n#pragma unroll\n#pragma GCC unroll 4\n#pragma GCC ivdep\n",
    "options": "#pragma GCC optimize(\"O3\")\n#pragma GCC target(\"avx2\")\n",
    "headers": (
        "#include <cute/tensor.hpp>\n#include <cutlass/numeric_types.h>\n#include <tvm/ffi/function.h>\n"
        "#include <cmath>\n#include <experimental/simd>\n"
        "#include <immintrin.h>\n#include \"omp.h\"\n#include <cuda_runtime.h>\n#include <cub/block/block_reduce.cuh>\n"
        "#include <cooperative_groups/reduce.h>\n#include <cuda/std/array>\n#include <mma.h>\n#include <cstdlib>\n"
    ),
    "ptx": (
        'asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0;\\n\\t"'
        '"@p ld.global.f32 %0, [%2]; }" : "=f"(x) : "r"(a), "l"(b));'
    ),
    "tf32, whose measured error decides": (
        "cutlass::tfloat32_t x; SM80_16x8x8_F32TF32TF32F32_TN a; SM90_64x128x8_F32TF32TF32_SS_TN<> b;"
        "__float_to_tf32(y);"
        'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(a) : "f"(b));'
        'asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1}, {%4,%5}, {%8,%9}, {%10};" : "+f"(d));'
        'asm("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0}, %1, %2, p, 1, 1;" : "+f"(d) : "l"(a), "l"(b));'
    ),
    "copies of the hardware": (
        'asm("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(s), "l"(g)); asm("cp.async.wait_group %0;" :: "n"(1));'
        'asm("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a) : "r"(s));'
        'asm("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"'
        ' :: "r"(s), "l"(d), "r"(b), "r"(x), "r"(y) : "memory");'
        'asm("{\\n.reg .pred P1;\\nLAB_WAIT:\\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\\n"'
        '"@P1 bra DONE;\\n"'
        '"bra LAB_WAIT;\\nDONE:\\n}" :: "r"(b), "r"(p)); asm("prefetch.global.L2 [%0];" :: "l"(g));'
        'asm("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(a));'
    ),
    "the runtime's harmless calls": (
        "cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, n); cudaGetLastError();"
        "cudaMallocAsync(&p, n, s); cudaFreeAsync(p, s); cudaMemsetAsync(p, 0, n, s);"
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 1, 1); cudaLaunchKernelEx(&c, f, a);"
        "cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeClusterDimension; cudaDeviceGetAttribute(&n, k, 0);"
        "cudaMemcpyAsync(p, q, n, cudaMemcpyDeviceToDevice, s);"
    ),
    "headers of cuda": (
        "#include <cuda_pipeline.h>\n#include <cuda/barrier>\n#include <cuda/pipeline>\n#include <cuda_fp16.h>\n"
        "#include <cute/arch/copy_sm90_tma.hpp>\n#include <cutlass/cluster_launch.hpp>\n"
        "#include <cooperative_groups.h>\n"
    ),
    "special registers": 'asm("mov.u32 %0, %%laneid;" : "=r"(x));',
    "processor assembly": 'asm volatile("" ::: "memory"); asm("vfmadd231ps %1, %2, %0" : "+x"(a) : "x"(b), "x"(c));',
    "stringizing": "#define SAY(x) #x\nthrow std::runtime_error(SAY(x));",
    "macros and conditions": "#define N 4\n#ifdef __AVX512F__\n#undef N\n#endif\n#if N > 3 && defined X\n#endif",
    "streams of the runtime": "auto s = (cudaStream_t)TVMFFIEnvGetStream(1, 0); f<<<1, 1, 0, s>>>();",
    "exact intrinsics": "__fmaf_rn(a, b, c); __fdiv_rn(a, b); __expf_like(x); _mm512_fmadd_ps(a, b, c); _mm_sfence();",
    "sections of openmp": "#pragma omp parallel sections\n{\n#pragma omp section\n{ f(); }\n}",
    "sizes": "static_assert(sizeof(float) == 4); std::abort();",
}  # fmt: skip

BLINDING = {
    "a name over two lines": ("sys\\\ntem(0);", "process", 1),
    "a name over two lines with blanks": ("dl\\  \nopen(0);", "loading", 1),
    "a comment that is none": ('auto s = "/*"; system(s); auto t = "*/";', "process", 1),
    "a string that is none": ("char c = '\"'; system(0); char d = '\"';", "process", 1),
    "a raw string that ends early": ('auto s = R"(")"; system(0); auto t = ")";', "process", 1),
    "a raw string that is none": ('#define xR\nauto s = xR"(" ; system(0); auto t = ")";', "process", 2),
    "a comment in a header's name": ("#include <cute/a/*b>\nsystem(0); /* */", "include", 1),
    "a line comment's splice that is none": ("// \\ x\nsystem(0);", "process", 2),
    "a trigraph that is none": ("// ??/\nsystem(0);", "process", 2),
    "digraphs around it": ("void f() <% system(0); %>", "process", 1),
    "a digit separator that is a quote": ("int x = 1'0 + sizeof(system(0)) + 1'0;", "process", 1),
    "an alias": ("#define RUN system\nRUN(0);\n", "process", 1),
    "an alias in parentheses": ("#define RUN (system)\nRUN(0);\n", "process", 1),
    "an alias with an argument": ("\n#define S(x) system(x)\n", "process", 2),
    "an attribute by a macro": (
        '#define W weakref\nint f() __attribute__((W("GOMP_parallel_start")));',
        "load_time",
        1,
    ),
    "an attribute given to a macro": (
        '#define AT(a, b) __attribute__((a(b)))\n\nAT(section, ".text") char const code[] = {15, 5};',
        "load_time",
        3,
    ),
    "an attribute given to a macro, deep": (
        "#define AT(a) __attribute__((a))\nAT((f(1), section)) int x;",
        "load_time",
        2,
    ),
    "an attribute in a list that a macro stands for": ("#define W cold, weakref, (x) y\n", "load_time", 1),
    "an attribute given to a macro beside its own use": (
        "#define AT(a, b) a b\n\nAT(AT(1, 2), section) int x;",
        "load_time",
        3,
    ),
    "an asm that ends the text": ("x = 1;\nasm", "assembly", 2),
    "an asm and its quality": ("x = 1;\nasm volatile", "assembly", 2),
    "an asm that a macro opens": ("#define NOP asm x )\n", "assembly", 1),
    "a header that a macro's name ends in": ("#define xcmathx <thread>\n#include xcmathx\n", "include", 2),
    "a header and more": ('#include "omp.h" "x"\n', "include", 1),
    "options without parentheses": ('#pragma GCC optimize "fast-math"\n', "fast_math", 1),
    "the system's returned, by its global name": ('int f() { return ::system("ls"); }', "process", 1),
    "the system's returned": ("int f() { return open(path, 0); }", "file", 1),
    "the system's first of all": ('open("a", 0); x', "file", 1),
    "the system's beside a variable": ("struct A { int open; };\nx = open(path, 0);", "file", 2),
    "the system's of C++": ("extern int open(char const*, int);\nx = open(path, 0);", "file", 1),
    "a builtin of that name": ("int x = __builtin_fork();\n", "process", 1),
    "a builtin of a program": ('\n__builtin_execv("a", 0);', "process", 2),
    "one's own beside the system's": ('struct A { void open(int) {} }; void f() { ::open("a", 0); }', "file", 1),
    "a declaration of the system's": ('extern "C" int open(char const*, int);\nopen("a", 0);', "file", 1),
    "an expression that looks like a definition": ("if (n > time(0)) { f(); }\nx = n * time(0);", "clock", 1),
    "a member beside the system's": ('struct A { void open(int) {} };\nint f() { return open("a", 0); }', "file", 2),
    "a parameter of another function": ('void g(int open) {}\nvoid f() { open("a", 0); }', "file", 2),
    "a variable of another block": ("void f() { { auto time = [] {}; }\ntime(0); }", "clock", 2),
    "a lambda's parameter beside it": ("auto f = [](auto kill) {};\nint x = kill(1, 9);", "process", 2),
    "a condition that names the system's": ("void f(int a) { if (a && time)\n{ time(0); } }", "clock", 2),
    "an argument that names the system's": ("void f(int a) { g(a && time);\ntime(0); }", "clock", 2),
    "a local declaration of the system's": ("void f() { int kill(int, int);\nkill(1, 9); }", "process", 1),
    "by another name for its type": ("using T = int; void f() { T kill(T, T);\nkill(1, 9); }", "process", 1),
    "a declaration within extern": ('extern "C" { int kill(int, int); }\nint x = kill(1, 9);', "process", 1),
    "a friend that is the system's": (
        "struct A {\nfriend int kill(int, int); int f() { return kill(1, 9); } };",
        "process",
        2,
    ),
    "a declaration in a namespace": ("namespace k {\nint kill(int, int); } int x = k::kill(1, 9);", "process", 2),
    "the system's in a namespace": (
        'namespace k { extern "C" int kill(int, int); }\nint x = k::kill(1, 9);',
        "process",
        1,
    ),
    "beside one's own in a namespace": (
        'namespace k { int kill(float) { return 1; } \nextern "C" int kill(int, int); }',
        "process",
        2,
    ),
    "the system's by using": ("namespace k {\nusing ::kill; } int x = k::kill(1, 9);", "process", 2),
    "one's own under #if 0": ("#if 0\nint time(float) { return 1; }\n#endif\nint x = time(0);", "clock", 4),
    "one's own in the other branch": (
        "#if 0\nint time(float) { return 1; }\n#else\nint x = time(0);\n#endif",
        "clock",
        4,
    ),
    "a scope that a condition ends": ("void f(int time) {\n#if 1\n}\nvoid g() {\n#endif\ntime(0); }", "clock", 6),
    "a scope that a macro ends": ("#define END }\nvoid f(int time) { END void g()\n{ time(0); }", "clock", 3),
    "a function that a macro drops": ("#define NO(x)\nNO(int time(float) { return 1; })\nint x = time(0);", "clock", 2),
    "a class that is none": ("#define struct namespace\nstruct A { int kill(int, int);\n};", "process", 2),
    "a name that a macro makes": ("#define T int kill(int, int); int\nint x = T::kill(1, 9);", "process", 1),
    "a type that is an operator": ("#define PLUS +\nvoid f() { 1 PLUS time;\ntime(0); }", "clock", 3),
    "one's own open, which imports cannot refuse": ("int open(float, int) { return 1; }\n", "file", 1),
    "one's own section, and an attribute": (
        'int section(int n) { return n; }\n__attribute__((section(".init_array"))) void (*p)() = f;',
        "load_time",
        2,
    ),
    "a member section, and an attribute by a macro": (
        'struct A { int section;\nvoid f() { __annotate__(section(".x")) int y; } };',
        "load_time",
        2,
    ),
    "an interposed function of the system's": ("\nint clock_gettime(int, void*) { return 0; }", "clock", 2),
    "a builtin beside one's own": ("struct A { int fork() { return\n__builtin_fork(); } };", "process", 2),
    "code under #if 0": ("#if 0\nsystem(0);\n#endif", "process", 2),
    "inside _Pragma": ('_Pragma("omp declare reduction(f : int : system(0))")', "process", 1),
    "a namespace by another name": ("namespace s = torch;", "framework", 1),
    "a global namespace by another name": ("namespace s = ::at;", "framework", 1),
}


def cases(table):
    return [pytest.param(kind, source, id=f"{kind}-{k}") for kind in table for k, source in enumerate(table[kind])]


@pytest.mark.parametrize(("kind", "source"), cases(REFUSED))
def test_refused_by_its_kind(kind, source):
    refusal = screen_source(f"int first;\n{source}", IEEE)
    assert refusal is not None
    assert refusal.kind == kind, refusal
    assert refusal.line in (2, 3)
    assert refusal.check == f"screen:{kind}"
    assert str(refusal).startswith(f"kernel:{refusal.line}: ")


@pytest.mark.parametrize("name", ALLOWED)
def test_its_honest_twin_passes(name):
    assert screen_source(ALLOWED[name], IEEE) is None


@pytest.mark.parametrize("trick", BLINDING)
def test_no_trick_blinds_it(trick):
    source, kind, line = BLINDING[trick]
    refusal = screen_source(source, IEEE)
    assert refusal is not None
    assert (refusal.kind, refusal.line) == (kind, line)


def test_a_refused_pragma_is_named():
    assert "#pragma GCC poison is" in screen_source("#pragma GCC poison x\n", IEEE).message
    assert "#pragma comment is" in screen_source("#pragma comment(lib)\n", IEEE).message


def test_types_that_the_task_has_may_be_used():
    kernel = "cutlass::half_t x; __expf(x);"
    assert screen_source(kernel, IEEE).kind == "precision"
    assert screen_source(kernel, IEEE | {"float16"}) is None
    assert screen_source("cutlass::tfloat32_t x;", frozenset({"float32", "tf32"})) is None
    assert screen_source(kernel, frozenset({"float32", "tf32"})).kind == "precision"


def test_it_is_quick_and_bounded():
    lines = "  for (int64_t i = 0; i < n; ++i) out[i] = std::exp(in[i]) * 0.5f; // a comment\n"
    source = lines * (80_000 // len(lines))
    started = time.process_time()
    assert screen_source(source, IEEE) is None
    assert time.process_time() - started < 5.0  # 0.1 s on an idle machine; growing with the square, minutes


@pytest.mark.parametrize(
    "statement",
    ["struct A { int open; };\n", "void f(int open) { open(1); }\n", "namespace k { void f() { open(1); } }\n"],
)
def test_many_declarations_of_one_name_take_no_time(statement):
    source = statement * (MAX_CHARACTERS // 2 // len(statement)) + "int x = open(1);"
    started = time.process_time()
    assert screen_source(source, IEEE).kind == "file"
    assert time.process_time() - started < 20.0  # 0.6 s; looking through all of them for each takes minutes


@pytest.mark.parametrize(
    "statement",
    ['asm("nop");', "#define A 1\n#if A > 2\n#endif\n", '_Pragma("omp simd")\n', '__attribute__((optimize("O2"))) '],
)
def test_time_grows_with_the_length_alone(statement):
    def seconds(characters):
        source = statement * (characters // len(statement))
        started = time.process_time()
        assert screen_source(source) is None
        return time.process_time() - started

    longer = min(seconds(MAX_CHARACTERS // 2) for _ in range(2))
    assert longer < 10 * seconds(MAX_CHARACTERS // 8)  # four times; growing with the square, sixteen times
    assert screen_source("x" * (MAX_CHARACTERS + 1), IEEE).kind == "size"
