"""The IR: values over axes, the indices they are read at, and what must hold of them."""
