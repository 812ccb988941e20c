"""The schedule for attention: kernels that never write the scores."""
