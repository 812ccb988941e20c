"""The schedule for any forward: loop nests, sorts and products on tensor cores."""
