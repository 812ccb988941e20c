"""The agents of an evolution: kernels proposed side by side, judged in turn, and chosen as the next ones' parents."""
