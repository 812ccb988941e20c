"""The schedule for products of matrices and what follows them."""
