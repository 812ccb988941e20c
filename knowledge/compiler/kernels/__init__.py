"""Exemplar kernels: complete CuTe sources whose named sections a recipe may replace."""
