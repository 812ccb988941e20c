"""One IR for every kind of forward: read from the trace, verified between stages, fused, written by schedules."""
