"""The judge: tasks, targets, building, isolation, correctness, timing, profiling."""
