"""What commands print: tables for people, exact JSON for programs.

stdout carries the answer and nothing else; what is said about it goes to stderr.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec
import typer
from rich.console import RenderableType

from pair.terminal.screen import console_on


def show(renderable: RenderableType) -> None:
    """Print a table or report."""
    console_on(sys.stdout).print(renderable)


def show_json(document: Any) -> None:
    """Print a document as JSON, indented, nothing added and nothing rounded."""
    typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def say(line: str) -> None:
    """Print one line of a long-running command's own, at once."""
    typer.echo(line)


def warn(sentence: str) -> None:
    """Tell something that the user should know but that stops nothing."""
    typer.echo(f"pair: {sentence}", err=True)


def log_to_stderr(*, debug: bool) -> None:
    """Send logs to stderr: warnings of all libraries, and with `debug` everything of `pair`."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if debug:
        logging.getLogger("pair").setLevel(logging.DEBUG)
