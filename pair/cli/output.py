"""What commands print: tables for people, exact JSON for programs.

stdout carries the answer and nothing else; what is said about it goes to stderr.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from contextlib import suppress
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
    """Print one line of the answer."""
    typer.echo(line)


def mention(line: str) -> None:
    """Print one line of what a long-running command does, at once, if it can be printed at all.

    Nobody need listen: a full disk, a closed terminal or a pipe whose reader left ends these lines,
    not the command with its calls. A letter that the stream does not know becomes a question mark.
    """
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except (OSError, ValueError):  # ValueError: the stream is closed
        _silence_stdout()


def _silence_stdout() -> None:
    """Send what follows nowhere, and what is still buffered: Python flushes again at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)


def warn(sentence: str) -> None:
    """Tell something that the user should know but that stops nothing."""
    with suppress(OSError):
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
