"""Where each conversation was last: a hint, by the mark that its client sends.

Separate from the prefix index, which knows better wherever the prompt can be read; this is for
prompts that cannot, for ties, and for the strategy `session`.
"""

from __future__ import annotations

from collections import OrderedDict

from pair.core.names import ReplicaId, SessionId


class Sessions:
    """The latest conversations, least recently used out (I7)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._homes: OrderedDict[SessionId, tuple[ReplicaId, int]] = OrderedDict()

    def served(self, session: SessionId | None, replica: ReplicaId, chars: int) -> None:
        """A prompt of so many characters of this conversation was read there."""
        if session is None:
            return
        self._homes[session] = (replica, chars)
        self._homes.move_to_end(session)
        if len(self._homes) > self._limit:
            self._homes.popitem(last=False)

    def home(self, session: SessionId | None) -> ReplicaId | None:
        """Where it was last, None if that is not known."""
        if session is None or session not in self._homes:
            return None
        return self._homes[session][0]

    def chars_at(self, session: SessionId | None, replica: ReplicaId) -> int:
        """How much of the conversation (characters) this replica has read, if it was its last."""
        if session is None:
            return 0
        home, chars = self._homes.get(session, (None, 0))
        return chars if home == replica else 0

    def __len__(self) -> int:
        return len(self._homes)
