"""What the engines saw, put together from the lines that their processes left behind.

Times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec


class Line(msgspec.Struct, frozen=True):
    """One line of a witness file: an entry was opened, started or closed (`fate` not "open")."""

    mark: str
    at_s: float
    number: int
    started: bool
    fate: str
    fault: str = ""
    status: int = 0
    body_sha256: str = ""


@dataclass(slots=True)
class Visit:
    """One request as one engine saw it.

    Attributes:
        start_s: it got a slot; None if it never did.
        end_s: infinite if the engine's process died first.
        fate: as in the engine's journal; "open" if the process died first.
    """

    node: int
    mark: str
    arrival_s: float
    start_s: float | None = None
    end_s: float = math.inf
    fate: str = "open"
    fault: str = ""
    status: int = 0
    body_sha256: str = ""


def read_visits(node: int, file: Path) -> list[Visit]:
    """The visits at one node, over all processes that its engine has had."""
    raw = file.read_bytes().splitlines() if file.exists() else []
    return visits(node, [msgspec.json.decode(line, type=Line) for line in raw if line[-1:] == b"}"])


def visits(node: int, lines: Iterable[Line]) -> list[Visit]:
    """The same of decoded lines, in their order."""
    found: list[Visit] = []
    by_number: dict[int, Visit] = {}
    for line in lines:
        visit = by_number.get(line.number)
        # A number that opens again is that of a new process.
        if visit is None or visit.mark != line.mark or (not line.started and line.fate == "open"):
            visit = by_number[line.number] = Visit(node, line.mark, line.at_s)
            found.append(visit)
        if line.started and visit.start_s is None:
            visit.start_s = line.at_s
        if line.fate != "open":
            visit.end_s, visit.fate, visit.fault = line.at_s, line.fate, line.fault
            visit.status, visit.body_sha256 = line.status, line.body_sha256
    return found
