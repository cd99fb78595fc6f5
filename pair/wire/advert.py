"""A node's mDNS record and back: who a machine is, in the few bytes that anything on a LAN may
send.

Apart from `pair/discovery`, which owns the sockets, so that every malformed record is a one-line
test. What comes in is a stranger's word: names end up on terminals, so control characters go, and
every value has a length.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from pair.core.names import NodeId
from pair.errors import BookkeepingError, NodeFault

SERVICE_TYPE = "_pair-node._tcp.local."
VERSION = "1"

LABEL_LIMIT_BYTES = 63
"""Of one DNS label (RFC 1035 section 2.3.4); a name within it fits a TXT string of 255 bytes as
well."""

_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""No colon and no slash, so that no stranger can take the id of a fixed node, which is a URL."""

_DIGEST_DIGITS = 8
"""32 bits: two nodes of one house share them once in four billion houses of two."""


@dataclass(frozen=True, slots=True)
class Advert:
    """What a node says of itself over mDNS; where it listens is in the record's own fields.

    Attributes:
        name: for people; not unique, at most 63 bytes of UTF-8.
        house: whose node it is, "" for everybody's. A demo or a test names its own, so that a real
            proxy on the same network does not send it anybody's calls.
    """

    node: NodeId
    name: str
    house: str = ""

    def __post_init__(self) -> None:
        if _NODE_ID.fullmatch(self.node) is None:
            raise BookkeepingError(f"{self.node!r} cannot be a node's id in an mDNS record")


def text_record(advert: Advert) -> dict[bytes, bytes]:
    """The record's TXT properties: all that there is besides addresses and port, and no model
    list.
    """
    properties = {
        b"v": VERSION.encode(),
        b"id": advert.node.encode(),
        b"name": clean_name(advert.name).encode(),
    }
    if advert.house:
        properties[b"house"] = clean_name(advert.house).encode()
    return properties


def read_advert(properties: Mapping[bytes, bytes | None]) -> Advert:
    """Read the TXT properties of a record. Unknown keys are ignored, a name that cannot be shown
    becomes the id.

    Raises:
        NodeFault: the record is of another version, or names no usable id; the text says which.
    """
    values: dict[bytes, str] = {}
    for key, value in properties.items():
        # Keys are compared without case, and the first of several counts (RFC 6763 section 6.4).
        values.setdefault(key.lower(), (value or b"").decode(errors="replace"))
    version = values.get(b"v", "")
    if version != VERSION:
        spoken = f"version {clean_name(version)}" if clean_name(version) else "no version"
        raise NodeFault(f"its record has {spoken}, and this pair reads version {VERSION}")
    node = values.get(b"id", "")
    if _NODE_ID.fullmatch(node) is None:
        raise NodeFault("its record has no usable id")
    name = clean_name(values.get(b"name", "")) or clean_name(node)
    return Advert(NodeId(node), name, clean_name(values.get(b"house", "")))


def instance_label(advert: Advert) -> str:
    """The record's own label, readable and unlike that of any other node.

    Two machines called `raspberrypi` differ in the digest of their ids, so nobody must be renamed,
    and a node need not ask for 1.2 s whether its label is free before it announces itself.
    """
    digest = hashlib.sha256(advert.node.encode()).hexdigest()[:_DIGEST_DIGITS]
    # A dot would end the label.
    name = clean_name(advert.name.replace(".", "-"), LABEL_LIMIT_BYTES - len(digest) - 1)
    return f"{name} {digest}" if name else digest


def target_name(advert: Advert) -> str:
    """The name that the record's addresses hang on.

    Not the machine's own `NAME.local.`: that one belongs to the system's responder (avahi,
    mDNSResponder), and our announcement would flush its addresses out of every cache.
    """
    digest = hashlib.sha256(advert.node.encode()).hexdigest()[: 2 * _DIGEST_DIGITS]
    return f"pair-{digest}.local."


def clean_name(text: str, limit_bytes: int = LABEL_LIMIT_BYTES) -> str:
    """The text without control and invisible characters, with single spaces, cut to whole
    characters within the limit.
    """
    visible = "".join(
        character if unicodedata.category(character)[0] not in "CZ" else " "
        for character in unicodedata.normalize("NFC", text[: 4 * LABEL_LIMIT_BYTES])
    )
    cut = " ".join(visible.split()).encode()[:limit_bytes]
    return cut.decode(errors="ignore").rstrip()
