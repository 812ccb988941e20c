"""The graphs for Aegra, which loads them from files by their paths."""

from graph.evolution.workflow import graph as evolve
from graph.model.workflow import graph as model
from graph.workflow import graph as cutegen

__all__ = ["cutegen", "evolve", "model"]
