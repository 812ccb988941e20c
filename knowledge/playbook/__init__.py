"""The rule-based author of kernels: recipes and the moves that refine them."""
