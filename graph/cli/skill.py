"""`cutegen skill`: the skill for coding agents, printed, or installed where an agent looks for it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from graph.cli.errors import IMPROVED
from graph.cli.options import Skill
from graph.runs.folder import machine_error, replace_file
from harness.nouns.errors import UserError

NAME = "cutegen"
FILE = "SKILL.md"
FOLDERS = {
    "claude": ".claude/skills",
    "codex": ".agents/skills",
    "cursor": ".cursor/skills",
    "opencode": ".opencode/skills",
}
USER_FOLDERS = {**FOLDERS, "opencode": ".config/opencode/skills"}
"""Where each agent looks: below a project, and below the home folder."""


def run(options: Skill) -> int:
    """Do the command; its exit code. Raises `UserError` where nothing says for whom it is installed."""
    text = (files("knowledge") / "skills" / NAME / FILE).read_text(encoding="utf-8")
    if (options.action == "install") != (options.agent is not None):
        raise UserError("A skill is installed for an agent.", "For instance: cutegen skill install --for claude.")
    if options.agent is None:
        print(text, end="")
        return IMPROVED
    base, folders = (Path.home(), USER_FOLDERS) if options.user else (Path.cwd(), FOLDERS)
    folder = base / folders[options.agent] / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise machine_error(error, folder, "make") from error
    replace_file(folder / FILE, text)
    print(f"{folder / FILE}\nThe judge's tools: let {options.agent} start `cutegen mcp` as an MCP server over stdio.")
    return IMPROVED
