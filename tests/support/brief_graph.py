"""The agents' graph for a server in tests: judged for real, with little time over timing, while the process runs."""

from brief_judge import brief_here

from graph.workflow import graph

__all__ = ["graph"]

JUDGES = brief_here()
JUDGES.__enter__()
