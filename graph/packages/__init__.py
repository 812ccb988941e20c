"""A run's kernel in the forms that other tools take, each for plain PyTorch: a form a file."""
