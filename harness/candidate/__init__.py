"""The child that holds a candidate's code. Standard library only, but for foreign modules."""
