"""From traced operations to the IR: one function an operation."""
