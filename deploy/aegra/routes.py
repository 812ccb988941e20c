"""The routes of ours for Aegra, which takes a FastAPI application."""

from fastapi import FastAPI

from graph.server.artifacts import ARTIFACTS

app = FastAPI()
app.router.routes.extend(ARTIFACTS)
