"""The child that has PyTorch: reference, oracle, trials, clock. Nothing of a candidate is loaded here."""
