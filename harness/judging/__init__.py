"""The judge: screen, build, check and time a candidate, and say what came of it."""
