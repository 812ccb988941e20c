"""A run is driven: a graph on its checkpoints, from where it stands to its end, with the artifacts written."""
