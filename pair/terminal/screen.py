"""Where output goes: one way to make a console, whatever stands at the other end of the stream."""

from __future__ import annotations

import io
from typing import Final, TextIO

from rich.console import Console

PIPE_COLUMNS: Final = 160
"""Width where there is no terminal: a table in a log or a pipe is read by tools, not cut at 80."""


def console_on(stream: TextIO) -> Console:
    """A console that colours only a terminal and never fails over a letter it can't show."""
    if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
        stream.reconfigure(errors="replace")
    width = None if stream.isatty() else PIPE_COLUMNS
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
