"""What a browsing driver on a machine has seen, as values, and how to wait for it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, Self

from tests.lan.machine import Machine, Program


@dataclass(frozen=True)
class Seen:
    """One sighting or withdrawal.

    Attributes:
        at: Unix time at which the driver was told.
        after_s: since the driver started to browse.
    """

    event: str
    node: str
    at: float
    after_s: float
    name: str = ""
    addresses: tuple[str, ...] = ()


class Watch:
    """A `discovery_driver browse` on a machine."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @classmethod
    async def on(cls, machine: Machine, reach: str = "network") -> Self:
        """Start browsing there."""
        program = await machine.start(
            sys.executable, "-m", "tests.lan.discovery_driver", "browse", reach
        )
        await program.line('"Started"', 10)
        return cls(program)

    async def sighted(self, node: str, limit_s: float, *, address: str = "") -> Seen:
        """The first sighting of this node (with this in an address), made already or within the
        limit.
        """
        return await self._first("NodeSighted", node, limit_s, address)

    async def withdrawn(self, node: str, limit_s: float) -> Seen:
        """The first withdrawal of this node, made already or within the limit."""
        return await self._first("NodeWithdrawn", node, limit_s, "")

    def all(self) -> list[Seen]:
        """Everything seen so far."""
        return [seen for line in self.program.lines if (seen := _seen(line)) is not None]

    async def _first(self, event: str, node: str, limit_s: float, address: str) -> Seen:
        def fits(line: str) -> bool:
            seen = _seen(line)
            return (
                seen is not None
                and (seen.event, seen.node) == (event, node)
                and (not address or any(address in one for one in seen.addresses))
            )

        seen = _seen(await self.program.line(fits, limit_s))
        assert seen is not None
        return seen


async def advertise(
    machine: Machine, node: str, name: str = "gaming-pc", address: str = "0.0.0.0", port: int = 7248
) -> Program:
    """Announce a node from there."""
    program = await machine.start(
        sys.executable, "-m", "tests.lan.discovery_driver",
        "advertise", node, name, address, str(port),
    )  # fmt: skip
    await program.line('"Started"', 10)
    return program


def _seen(line: str) -> Seen | None:
    if not line.startswith("{"):
        return None
    values: dict[str, Any] = json.loads(line)
    if "node" not in values:
        return None
    values.pop("fixed", None)
    values["addresses"] = tuple(values.get("addresses", ()))
    return Seen(**values)
