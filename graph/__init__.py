"""The front doors: the state graph, its routing, the command line, the report."""
