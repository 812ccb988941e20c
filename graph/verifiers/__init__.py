"""How good the verifiers are: a corpus of right kernels and of mutants that the judge has found wrong."""
