"""One compiler: from a traced forward, by one IR for every kind, to plans and the kernels that are written of them."""
