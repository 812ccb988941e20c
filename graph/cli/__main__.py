"""`python -m graph.cli`."""

from graph.cli.main import app

app()
