"""One connection to a node or engine: asks one question at a time and hands the answer's bytes on as they come."""

from __future__ import annotations

from collections.abc import Sequence

from pair.relay.heads import AnswerHead


class UpstreamConnection:
    """Comes from an `UpstreamPool` and goes back there by `release`.

    Attributes:
        reused: it has answered before.
    """

    reused: bool

    async def ask(self, head: bytes, body: Sequence[bytes]) -> AnswerHead:
        """Send a request and wait for the head of its final answer (1xx are skipped).

        An answer that comes before the whole body was sent is taken, and the rest of the body is not sent.

        Raises:
            LostUpstream: closed or reset before a head.
            GarbledAnswer: not HTTP, or a head above the limit.
        """
        raise NotImplementedError

    async def read_all(self, limit_bytes: int) -> bytes:
        """The body of the answer, for error answers that somebody wants to read; cut off at `limit_bytes`.

        Raises:
            LostUpstream: ended before it was whole.
            GarbledAnswer: its framing is broken.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Done with it: kept for the next request if its answer was whole and both sides keep it, else closed now."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close it now, which stops the engine. Does nothing when it is closed or released already."""
        raise NotImplementedError
