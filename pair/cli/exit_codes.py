"""What the shell is told at the end, and which errors are the command line's own.

Apart, because scripts and service managers rely on these numbers: they are part of the contract,
not of any command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pair.errors import SettingsError

OK: Final = 0
FAILED: Final = 1
"""The command could not do what was asked; one sentence on stderr says why."""
USAGE: Final = 2
"""The arguments make no sense; typer or one sentence on stderr says which."""


class UsageFault(SettingsError):
    """What stands on the command line itself cannot be used; the same in the settings file or the
    environment is a `SettingsError` only.
    """


@contextmanager
def usage() -> Iterator[None]:
    """Around what reads arguments: what is wrong there ends with `USAGE`."""
    try:
        yield
    except SettingsError as fault:
        raise UsageFault(str(fault)) from fault


def of_signal(number: int) -> int:
    """The exit code of a program that a signal ended at once: 128 + its number."""
    return 128 + number
