"""What a source of nodes is: something that, while it is open, tells a listener who exists.

The shape is separate so that the proxy treats mDNS and the user's own list alike, and tests can
open either. A sighting is not membership: whether a node lives, only a probe says.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from pair.core.events import NodeSighted, NodeWithdrawn

Listener = Callable[[NodeSighted | NodeWithdrawn], None]
"""Called on the event loop; must not block and must not raise. The same sighting may come again."""


class Source(Protocol):
    """Tells its listener of nodes from the moment it is entered until it is left."""

    async def __aenter__(self) -> Self:
        """Start; nodes that are known at once are told before this returns."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop; the listener is not called after this returns."""
        ...
