"""Tools that watch a kernel's every access: the compiler's sanitizers on cpu, compute-sanitizer on cuda."""
