"""The clock: how long kernels, the reference and the exported drop-in take."""
