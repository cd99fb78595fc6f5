"""Ids of what an engine keeps: responses, conversations, files, batches, vector stores.

Only the engine that made one knows it, so a request that names it must go where it was made. This
finds such ids in requests and, by a look at an answer's first bytes that ends at the first match,
in answers. Whether an id is known is the proxy's matter (`proxy/stickiness.py`).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

ID_LIMIT_CHARS = 128
"""Longest id kept; the longest seen are under 60."""

LOOK_LIMIT_BYTES = 16 * 1024
"""Of an answer, looked through for its id. It stands in the first fields, or in the first event;
only LM Studio's streams tell it in their last one."""

_COLLECTIONS = (
    "/v1/responses/",
    "/v1/conversations/",
    "/v1/files/",
    "/v1/batches/",
    "/v1/uploads/",
    "/v1/vector_stores/",
    "/v1/messages/batches/",
    "/v1/assistants/",
    "/v1/threads/",
    "/v1/containers/",
    "/v1/fine_tuning/jobs/",
    "/v1/videos/",
    "/api/v1/models/download/status/",
)
_NO_IDS = frozenset(("input_tokens", "compact", "count_tokens", "search"))
"""Where an id would stand in such a path, but a thing to do stands there."""

_MAKERS = frozenset(
    (
        *(collection[:-1] for collection in _COLLECTIONS),
        "/api/v1/models/download",
        "/v1/responses/compact",
        "/responses",
        "/api/v1/chat",
    )
)
"""Asked with POST, answered with a new id."""

_ID = re.compile(
    rb'"(?:id|response_id|job_id)"\s*:\s*"([\x21\x23-\x5b\x5d-\x7e]{1,%d})"' % ID_LIMIT_CHARS
)
"""Not within a text: there the quotes are escaped. Nor `previous_response_id`."""

_OVERLAP_BYTES = 2 * ID_LIMIT_CHARS
"""Looked at once more with the next piece, since a match may lie in both; longer than any."""


def id_in_path(path: str) -> str | None:
    """The id after a collection's name, such as `resp_1` in `/v1/responses/resp_1/cancel`."""
    for collection in _COLLECTIONS:
        if path.startswith(collection):
            name = unquote(path[len(collection) :].partition("/")[0])
            return name if name not in _NO_IDS and 0 < len(name) <= ID_LIMIT_CHARS else None
    return None


def usable_id(value: object) -> str | None:
    """An id in a body's field: a text, or an object with one (`conversation`); None for else."""
    if isinstance(value, dict):
        value = value.get("id")
    return value if isinstance(value, str) and 0 < len(value) <= ID_LIMIT_CHARS else None


def makes_ids(method: bytes, path: str) -> bool:
    """Whether the answer to this carries an id that must be remembered."""
    return method == b"POST" and keeps(path)


def keeps(path: str) -> bool:
    """Whether an engine keeps something for this, so that an id in a body means what is kept. In a
    chat, `conversation` is a program's own word.
    """
    return path in _MAKERS or (path.startswith(_COLLECTIONS) and id_in_path(path) is not None)


class IdFinder:
    """Looks through an answer as it passes for the first id that is none of those known before.

    Attributes:
        over: it has found one or will find none; need not be fed any more.
        found: the id, None so far.
    """

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        self.over = False
        self.found: str | None = None
        self._known = known
        self._left_bytes = LOOK_LIMIT_BYTES
        self._tail = b""

    def feed(self, piece: bytes) -> None:
        """The next bytes of the body."""
        piece = piece[: self._left_bytes]
        self._left_bytes -= len(piece)
        seen = self._tail + piece
        for match in _ID.finditer(seen):
            name = match[1].decode()
            if name not in self._known:
                self.found = name
                self.over = True
                return
        self._tail = seen[-_OVERLAP_BYTES:]
        self.over = not self._left_bytes
