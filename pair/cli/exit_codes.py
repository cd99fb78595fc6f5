"""What the shell is told at the end.

Apart, because scripts and service managers rely on these numbers: they are part of the contract,
not of any command.
"""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
"""The command could not do what was asked; one sentence on stderr says why."""
USAGE: Final = 2
"""The arguments make no sense; typer prints which."""
INTERRUPTED: Final = 130
"""Ctrl-C: 128 + SIGINT, as shells expect."""


def of_signal(number: int) -> int:
    """The exit code of a program that a signal ended at once: 128 + its number."""
    return 128 + number
