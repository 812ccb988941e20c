"""Where a kernel runs: toolchain, device facts, profiler."""
