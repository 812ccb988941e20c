"""One agent a file, the state they hand each other, and the models they speak to."""
