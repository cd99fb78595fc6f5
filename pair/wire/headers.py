"""The `x-pair-*` headers: their names, what is read from them, what is written into them.

Separate because their values come from strangers and go into other people's connections: everything
read here is checked, and everything written here is one line of printable Latin-1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, unquote

from pair.core.names import EngineName, JobId, ModelName, NodeId, Priority
from pair.errors import RequestFault

Header = tuple[bytes, bytes]
First = Callable[[bytes], bytes | None]
"""Looks up the first header with a lower-case name, as the relay's heads do with `.first`."""

JOB = b"x-pair-job"
SESSION = b"x-pair-session"
PRIORITY = b"x-pair-priority"
NODE = b"x-pair-node"
"""In a request the node that the client insists on, in an answer the node that gave it."""
ENGINE = b"x-pair-engine"
MODEL = b"x-pair-model"
FROM = b"x-pair-from"
"""The proxy that a request came through, by a mark that no other start of a proxy has; told to
nodes only, which tell each proxy in their reports how many of its calls they have counted."""
VIA = b"x-pair-via"
"""The node through which a request reached an engine. Whoever of us finds it in a request stands
where an engine should be, and refuses: no loops."""
ATTEMPTS = b"x-pair-attempts"
QUEUE_MS = b"x-pair-queue-ms"
REASON = b"x-pair-reason"
REQUEST_ID = b"x-request-id"

NAME_LIMIT_CHARS = 200
"""Longest job, session, node or request id taken from a header; they become table keys and
lines."""

FROM_LIMIT_CHARS = 32
"""Longest mark of a proxy; ours have 16, and a node keeps one for each call."""

REASON_LIMIT_CHARS = 300
"""Longest reason written into a header; clients limit a whole head to as little as 8 kB."""

_UNQUOTED = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")
"""What stands for itself in the name of an engine or model; the rest is percent-encoded UTF-8."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a client asks of `pair` beside its request.

    Attributes:
        node: id or name of the node that the client insists on.
    """

    job: JobId | None = None
    session: str | None = None
    priority: Priority = Priority.DEFAULT
    node: str | None = None


def read_wishes(first: First) -> Wishes:
    """The wishes in a client's request.

    Raises:
        RequestFault: a value that cannot be a name (400), or a priority that does not exist (400).
    """
    job = _name(first, JOB)
    priority = first(PRIORITY)
    return Wishes(
        job=None if job is None else JobId(job),
        session=_name(first, SESSION),
        priority=Priority.DEFAULT if priority is None else _priority(priority),
        node=_name(first, NODE),
    )


def read_request_id(first: First) -> str | None:
    """The client's own id for its request, None without a usable one."""
    try:
        return _name(first, REQUEST_ID)
    except RequestFault:
        return None


def choice_headers(engine: EngineName, model: ModelName | None) -> tuple[Header, ...]:
    """What a proxy adds for a node, so that the node can choose before it reads the body."""
    chosen = (ENGINE, quote(engine, safe=_UNQUOTED).encode())
    if model is None:
        return (chosen,)
    return (chosen, (MODEL, quote(model, safe=_UNQUOTED).encode()))


def read_choice(first: First) -> tuple[EngineName | None, ModelName | None]:
    """What a proxy has chosen; None for what it left open."""
    engine, model = first(ENGINE), first(MODEL)
    return (
        EngineName(unquote(engine.decode("latin-1"))) if engine else None,
        ModelName(unquote(model.decode("latin-1"))) if model else None,
    )


def read_from(first: First) -> str | None:
    """The mark of the proxy that a request came through, None where there is none."""
    mark = first(FROM)
    return mark.decode("latin-1")[:FROM_LIMIT_CHARS] if mark else None


def answer_headers(
    *,
    node: NodeId | str,
    attempts: int,
    queued_s: float,
    reason: str,
    job: JobId | None,
    request_id: str,
) -> tuple[Header, ...]:
    """What a proxy adds to every answer that a node gave."""
    headers = [
        (NODE, header_text(node)),
        (ATTEMPTS, b"%d" % attempts),
        (QUEUE_MS, b"%d" % round(queued_s * 1000)),
        (REASON, header_text(reason)),
        (REQUEST_ID, header_text(request_id)),
    ]
    if job is not None:
        headers.append((JOB, header_text(job)))
    return tuple(headers)


def header_text(text: str) -> bytes:
    """Any text as a header value: no line break or control character, `?` for what Latin-1
    lacks.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(char if char.isprintable() else " " for char in text)
    return text[:REASON_LIMIT_CHARS].strip().encode("latin-1", "replace")


def _name(first: First, header: bytes) -> str | None:
    """The header's value as a name, None without one."""
    value = first(header)
    if value is None:
        return None
    text = value.decode("utf-8", "replace").strip()
    if not text or not text.isprintable() or len(text) > NAME_LIMIT_CHARS:
        raise RequestFault(
            400,
            "invalid_header",
            f"The header {header.decode()} must be 1 to {NAME_LIMIT_CHARS} printable characters.",
            param=header.decode(),
        )
    return text


def _priority(value: bytes) -> Priority:
    text = value.decode("latin-1").strip().lower()
    for priority in Priority:
        if priority.value == text:
            return priority
    raise RequestFault(
        400,
        "invalid_header",
        f"The header {PRIORITY.decode()} must be one of: {', '.join(Priority)}.",
        param=PRIORITY.decode(),
    )
