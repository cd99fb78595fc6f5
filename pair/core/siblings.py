"""Calls that begin alike and are open together: the siblings of one fan-out.

Separate because it bounds what a warm prefix may do. Each sibling alone would go where the prefix
already is; all together they would pile up on the node that happened to read it first. So a wave
that began cold spreads over nodes that are equally fast: none gets more than its share of it, calls
/ nodes rounded up, while another one is free. Only what they have in common is bounded so: a
conversation that has gone on, and whose own part is warm somewhere, goes back there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pair.core.names import NodeId, TicketId
from pair.core.prompt import BLOCKS_LIMIT, Prompt, block_end, shared_blocks, whole_blocks

ALIKE_CHARS = 4096
"""So much in common (characters) makes siblings: more than a greeting, less than the system prompt
and tools of any agent seen on the wire (24 to 78 kB a request)."""

_ALIKE_BLOCKS = whole_blocks(ALIKE_CHARS)


@dataclass(slots=True, eq=False)
class Wave:
    """Siblings, from the first one's opening until none is open.

    Attributes:
        cold: nobody had what makes them siblings when the first one came.
        first: the prompt of the first one; `alike_blocks` of it begin all that came after, too.
        calls: how many have come; `open_calls` are not closed yet.
        on_node: how many each node has been given.
    """

    cold: bool
    first: Prompt
    alike_blocks: int
    calls: int = 0
    open_calls: int = 0
    on_node: Counter[NodeId] = field(default_factory=Counter)

    def has_share(self, node: NodeId, nodes: int) -> bool:
        """Whether this one of `nodes` has had its share, ceil(calls / nodes), of a cold wave."""
        return self.cold and self.on_node[node] * nodes >= self.calls

    def goes_beyond(self, cached_chars: float) -> bool:
        """Whether this is a block more than siblings have in common: a part of one alone."""
        return cached_chars > block_end(min(self.alike_blocks + 1, BLOCKS_LIMIT)) - 1


class Siblings:
    """All waves with open calls: bounded by the open tickets."""

    def __init__(self) -> None:
        self._waves: dict[int, Wave] = {}
        self._of_ticket: dict[TicketId, tuple[int, Wave]] = {}

    def open(self, ticket: TicketId, prompt: Prompt, held: Callable[[int], bool]) -> None:
        """A call has come; `held` says whether some node holds the prompt up to a fingerprint."""
        if len(prompt.fingerprints) < _ALIKE_BLOCKS:
            return
        mark = prompt.fingerprints[_ALIKE_BLOCKS - 1]
        wave = self._waves.get(mark)
        if wave is None:
            # Not any beginning: a greeting may be everywhere.
            wave = self._waves[mark] = Wave(not held(mark), prompt, len(prompt.fingerprints))
        else:
            alike = shared_blocks(wave.first.fingerprints, prompt.fingerprints)
            wave.alike_blocks = min(wave.alike_blocks, alike)
        wave.calls += 1
        wave.open_calls += 1
        self._of_ticket[ticket] = (mark, wave)

    def of(self, ticket: TicketId) -> Wave | None:
        """The wave that this open ticket belongs to."""
        found = self._of_ticket.get(ticket)
        return None if found is None else found[1]

    def granted(self, ticket: TicketId, node: NodeId) -> None:
        """A node has been given this call."""
        if (wave := self.of(ticket)) is not None:
            wave.on_node[node] += 1

    def failed(self, ticket: TicketId, node: NodeId) -> None:
        """It was for nothing: the call will go to a node again."""
        if (wave := self.of(ticket)) is not None:
            wave.on_node[node] -= 1

    def close(self, ticket: TicketId) -> None:
        """The call is over."""
        mark, wave = self._of_ticket.pop(ticket, (0, None))
        if wave is not None:
            wave.open_calls -= 1
            if not wave.open_calls:
                del self._waves[mark]

    def __len__(self) -> int:
        return len(self._waves)
