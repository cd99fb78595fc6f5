"""Whose request it is, by what known clients say of themselves in headers of their own.

Separate from the `x-pair-*` headers because these were not written for us: whatever cannot be a
mark is as good as none, and nobody is refused for it.

Agent frameworks mark the conversation (of one agent or sub-agent) and the run that all of them
belong to. The fine mark is the session, the coarse one the job. Never the other way round: taken
for a session, a coarse mark would draw a whole team of sub-agents to one node.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pair.core.names import FlowId, JobId, SessionId
from pair.wire.headers import NAME_LIMIT_CHARS, SESSION, First, Wishes

_FINE = (b"x-claude-code-agent-id", b"x-session-affinity", b"thread-id")
"""Of one conversation: Claude Code's sub-agents, OpenCode, Codex; seen on the wire in November
2026."""

_COARSE = (b"x-claude-code-session-id", b"x-parent-session-id", b"session-id")
"""Of a whole run, of the same three."""

_CLIENT_MARKS = (b"authorization", b"x-api-key", b"user-agent")
"""What tells one client from another that names no job."""

_DIGEST_BYTES = 8
"""Enough to keep some thousand clients apart; keys are random, so nobody guesses one from it."""


@dataclass(frozen=True, slots=True)
class Whose:
    """To whom a request belongs, None where its client does not say."""

    job: JobId | None
    session: SessionId | None
    flow: FlowId


def whose(first: First, wishes: Wishes, client: str) -> Whose:
    """What is known of a request's origin; what its client says in `x-pair-*` comes first.

    Args:
        client: who asks, as text for people: an address with a port.
    """
    job = wishes.job
    if job is None and (mark := _first_mark(first, _COARSE)) is not None:
        job = JobId(mark[1])
    session = None if wishes.session is None else (SESSION, wishes.session)
    session = session or _first_mark(first, _FINE)
    return Whose(
        job,
        # With the header's name, for two clients may well count from 1.
        None if session is None else SessionId(f"{session[0].decode()}: {session[1]}"),
        _client_flow(first, client) if job is None else FlowId(f"job: {job}"),
    )


def _first_mark(first: First, headers: tuple[bytes, ...]) -> tuple[bytes, str] | None:
    for header in headers:
        value = first(header)
        text = "" if value is None else value.decode("utf-8", "replace").strip()
        if text and text.isprintable() and len(text) <= NAME_LIMIT_CHARS:
            return header, text
    return None


def _client_flow(first: First, client: str) -> FlowId:
    """The same for all calls of one program with one key from one machine. A digest, so that no key
    stands in the books.
    """
    address = client.rpartition(":")[0] or client
    digest = hashlib.blake2b(address.encode(), digest_size=_DIGEST_BYTES, person=b"pair flow")
    for header in _CLIENT_MARKS:
        value = first(header)
        digest.update(b"\0-" if value is None else b"\0+" + value)
    return FlowId(f"client: {digest.hexdigest()}")
