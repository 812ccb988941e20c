"""What a kernel may not contain, told from its tokens and from what its library imports, before anything runs."""
