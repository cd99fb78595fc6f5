"""What one setting says of itself. Apart, so that every section can use it and needs no other."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any


def knob(
    default: Any,
    unit: str,
    reason: str,
    *,
    least: float = 0,
    most: float = math.inf,
    form: str = "",
) -> Any:
    """A settings field.

    Args:
        unit: "" for names and switches.
        reason: what the setting does and why this default.
        least: the smallest number that makes sense.
        most: the largest one.
        form: what a text must look like: "" for anything, "address" (HOST:PORT or a path), "port"
            (HOST:PORT only), "url", "origin", "strategy".
    """
    return field(
        default=default,
        metadata={"unit": unit, "reason": reason, "least": least, "most": most, "form": form},
    )
