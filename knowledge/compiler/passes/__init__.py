"""From values to kernels: what is computed where it is read, what ends a kernel, what lies in memory."""
