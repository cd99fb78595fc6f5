"""Numbers and foreign words as text for people.

One home, so that a duration looks the same everywhere, and so that nothing which came over the
network reaches a terminal unseen: a node's name is a stranger's text and may hold escape codes.
"""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "–"
TEXT_LIMIT: Final = 300
"""Characters shown of a foreign text; names are short, reasons are a sentence."""


def seconds(value: float | None) -> str:
    """A duration with the precision that still means something: 0.21 s, 12.3 s, 2:05 min."""
    if value is None:
        return UNKNOWN
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 99.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02} h"


def ratio(value: float | None) -> str:
    """A speed-up, such as 2.43x."""
    return UNKNOWN if value is None else f"{value:.2f}x"


def percent(value: float | None) -> str:
    """A share of one, such as 97%."""
    return UNKNOWN if value is None else f"{value:.0%}"


def rate(value: float | None) -> str:
    """Tokens a second to three digits, such as 1,250/s or 46.9/s; "" for what is not known."""
    if value is None:
        return ""
    return f"{value:,.0f}/s" if value >= 99.95 else f"{value:.3g}/s"


def count(value: int | None) -> str:
    """A whole number with thin groups, such as 12,345."""
    return UNKNOWN if value is None else f"{value:,}"


def several(value: int, one: str, many: str = "") -> str:
    """`1 node`, `3 nodes`; `many` where adding an s is not enough."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def plain(text: object) -> str:
    """Foreign text on one line, without anything that a terminal would obey."""
    shown = "".join(sign if sign.isprintable() else "�" for sign in str(text))
    return shown if len(shown) <= TEXT_LIMIT else shown[: TEXT_LIMIT - 1] + "…"
