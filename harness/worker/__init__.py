"""The processes that have torch: the warm parent, tracing and judging children, the candidate's runner."""
