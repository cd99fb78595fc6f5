"""Heads of requests and answers as values, and how they are rewritten on the way through.

The one place that lists the headers which do not pass (invariant I10): everything else, order, case and duplicates included,
goes on as it came. Pure: bytes and values only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

Header = tuple[bytes, bytes]


@dataclass(slots=True)
class RequestHead:
    """A client's request without its body. Made once by the relay and not changed after.

    Attributes:
        target: in origin form (`/v1/models?x=1`, or `*`); percent-encoding untouched.
        headers: as they came.
        named: the first value of each header by its lower-case name.
        keep_alive: the client wants the connection kept.
        content_length: None without one.
        expects_continue: the client waits for `100 Continue` before it sends its body.
        upgrade: the client asks for another protocol (`Upgrade`).
    """

    method: bytes
    target: bytes
    minor_version: int
    headers: list[Header]
    named: dict[bytes, bytes]
    keep_alive: bool
    content_length: int | None
    chunked: bool
    expects_continue: bool
    upgrade: bool

    def first(self, name: bytes) -> bytes | None:
        """The first value of the header with this lower-case name, None without one."""
        return self.named.get(name)


@dataclass(slots=True)
class AnswerHead:
    """An answer without its body.

    Attributes:
        content_length: None without one (chunked, or the end of the connection is the end of the body).
        keep_alive: the upstream keeps its connection.
    """

    status: int
    reason: bytes
    minor_version: int
    headers: list[Header]
    named: dict[bytes, bytes]
    content_length: int | None
    chunked: bool
    keep_alive: bool

    def first(self, name: bytes) -> bytes | None:
        """The first value of the header with this lower-case name, None without one."""
        return self.named.get(name)


def request_bytes(
    head: RequestHead,
    *,
    authority: bytes,
    body_length: int,
    drop: Collection[bytes] = (),
    add: Sequence[Header] = (),
    target: bytes | None = None,
) -> bytes:
    """The head to send upstream, blank line included.

    Args:
        authority: the `Host` there (engines check it), `pool.authority`.
        body_length: of the whole body, which is always sent with a length: some engines cannot read chunks.
        drop: lower-case names that do not pass besides the hop-by-hop ones and `x-pair-*`.
        add: headers of ours, `x-pair-*` included.
        target: instead of the client's.
    """
    raise NotImplementedError
