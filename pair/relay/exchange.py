"""One request of a client and the answer to it: what a handler (the proxy's or the node's) holds in its hands."""

from __future__ import annotations

from collections.abc import Sequence

from pair.relay.heads import AnswerHead, Header, RequestHead


class Exchange:
    """Handed to the front's `serve`, which answers it exactly once: whole (`answer`) or in pieces (`begin`, `send`, `finish`).

    When the client hangs up before the answer is whole, the serving task is cancelled with `client_left` set. After
    `finish` or `answer` a hang-up is no longer the exchange's business.

    Attributes:
        client: who asks, as text for people.
        accepted_at: loop time at which the head was whole.
        begun: something of the answer has been committed to; no other answer is possible.
        client_left: the client hung up first.
    """

    head: RequestHead
    client: str
    accepted_at: float
    begun: bool
    client_left: bool

    async def read_body(self, limit_bytes: int) -> list[bytes]:
        """The request's body, whole, in the pieces in which it came; sends `100 Continue` if the client waits for it.

        Held against the front's budget of buffered bytes until the exchange is over; when that is spent, waits.

        Raises:
            RequestFault: 413 when it is longer than `limit_bytes`, told before reading where the length is known.
        """
        raise NotImplementedError

    def answer(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """A whole answer of our own; length and connection headers are added."""
        raise NotImplementedError

    def begin(self, head: AnswerHead, add: Sequence[Header] = ()) -> None:
        """Commit to this answer. Its head leaves in one write with what `send` or `finish` is called with next."""
        raise NotImplementedError

    def send(self, piece: bytes) -> None:
        """Write this piece of the body now. `b""` writes the head alone."""
        raise NotImplementedError

    def finish(self, piece: bytes = b"", trailers: Sequence[Header] = ()) -> None:
        """The answer is whole with this last piece."""
        raise NotImplementedError

    def cut(self) -> None:
        """End the connection in a way that no client can take for the end of an answer; what was sent still gets there."""
        raise NotImplementedError
