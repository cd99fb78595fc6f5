"""docs/cli.md from the command line itself: each command with its arguments and options.

Walks the built command tree and asks each parameter for its own help record, which is what `--help`
prints, so that the page cannot say anything else; the terminal's width does not matter.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

HEADER = """\
# Command line

Generated from `pair/cli` by `make docs`; do not edit. `--help` after any command prints its part.
"""


def cli_page(app: typer.Typer) -> str:
    """The whole page: the program first, then each command in the order of `pair --help`."""
    return "\n".join([HEADER, *_command(typer.main.get_command(app), app.info.name or "", None)])


def _command(command: Any, name: str, parent: Any) -> Iterator[str]:
    """The paragraphs for one command and those below it; `parent` is None at the top.

    `Any`, because typer carries its own copy of click, whose types are private to it.
    """
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    with context:
        yield f"## `{context.command_path}`\n"
        yield f"```\n{_one_line(context.get_usage()).removeprefix('Usage: ')}\n```\n"
        if command.help:
            yield f"{inspect.cleandoc(command.help)}\n"
        rows = list(_rows(command, context))
        if rows:
            yield "\n".join(["| option | what it does |", "|---|---|", *rows, ""])
        for below, subcommand in getattr(command, "commands", {}).items():
            if not subcommand.hidden:
                yield from _command(subcommand, below, context)


def _rows(command: Any, context: Any) -> Iterator[str]:
    """A table row for each parameter that is not hidden; `--help` itself is not among them."""
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            names, text = (_one_line(part).replace("|", "\\|") for part in record)
            yield f"| `{names}` | {text} |"


def _one_line(text: str) -> str:
    return " ".join(text.split())
