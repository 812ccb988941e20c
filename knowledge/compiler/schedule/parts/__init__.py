"""Kernels made of kernels: forwards in parts, and of several sizes."""
