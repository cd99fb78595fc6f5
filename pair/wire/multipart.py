"""One short field out of a multipart form, such as the `model` beside a sound file.

Separate because a form is the one kind of body that is not JSON and still names a model. Only
boundaries are looked for, at memory speed, so that 100 MB of sound before the field cost
milliseconds.
"""

from __future__ import annotations

import re

_BOUNDARY = re.compile(rb'boundary=(?:"([^"\r\n]{1,200})"|([^\s;,"]{1,200}))', re.IGNORECASE)
_NAME = re.compile(rb'(?im)^content-disposition:[^\r\n]*[;\s]name="?([^";\r\n]*)"?')

PARTS_LIMIT = 256
"""Most parts looked at; a transcription has about five."""

PART_HEAD_LIMIT_BYTES = 4096
"""Largest head of a part; a file's name is the longest thing in it."""


def form_field(body: bytes, content_type: bytes, name: bytes) -> str | None:
    """The text of the first field with this name, None if there is none or the form is broken."""
    match = _BOUNDARY.search(content_type)
    if match is None:
        return None
    boundary = b"--" + (match[1] or match[2])
    start = body.find(boundary)
    for _ in range(PARTS_LIMIT):
        if start < 0:
            return None
        start += len(boundary)
        following = body.find(b"\r\n" + boundary, start)
        head_end = body.find(b"\r\n\r\n", start, min(following, start + PART_HEAD_LIMIT_BYTES))
        if following < 0 or head_end < 0:
            return None
        found = _NAME.search(body[start:head_end])
        if found is not None and found[1] == name:
            return body[head_end + 4 : following].decode("utf-8", "replace").strip()
        start = following + 2
    return None
