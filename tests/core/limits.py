"""Limits for tests of the core: the settings' own defaults, with single numbers replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pair.core.limits import Limits
from pair.settings import Settings


def limits(**changes: Any) -> Limits:
    """The default limits of `pair/settings`, with these numbers instead."""
    return replace(Settings().limits(), **changes)
