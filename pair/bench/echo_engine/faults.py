"""What can go wrong with an echo engine on purpose, and when.

Each kind is a value of its own with its own settings, so that a script with a misspelt or misplaced
setting is refused instead of being quietly without effect. *When* is common to all: a path, and
"the first n", "every k-th", "with this probability". How a fault is carried out is in `reply` and
`engine`.

A fault is written as JSON (`{"kind": "cut", "after_events": 3}`) or short (`cut,after_events=3`),
the same at the start, in the request header `x-echo-fault` and in POST /echo/faults.
"""

from __future__ import annotations

import fnmatch
import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from pair.errors import SettingsError

# What Ollama says when its own queue is full; clients and proxies recognise it by these words.
OLLAMA_BUSY = "server busy, please try again.  maximum pending requests exceeded"
# What proxies ask engines about themselves, over all kinds.
STATUS_PATHS = (
    "/health|/slots|/props|/metrics|/models|/v1/models|/api/tags|/api/ps|/api/version|/version"
    "|/api/v0/models|/get_model_info|/get_server_info"
)
# Header texts remembered with their counts; a test sends a handful.
_HEADER_FAULTS_LIMIT = 256


class Fault(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """When a fault strikes; the kinds below say what happens then.

    Attributes:
        path: patterns with `*`, separated by `|`; empty: every request for work (chat, embeddings,
            ...).
        skip: leave this many matching requests alone first.
        first: strike at most this many matching requests (after `skip`), None for no limit.
        every: strike only each k-th of them.
        probability: strike with this chance, drawn from a generator seeded with `seed`.
        reused: strike only a request that is not the first on its connection.
    """

    path: str = ""
    skip: int = 0
    first: int | None = None
    every: int = 1
    probability: float = 1.0
    seed: int = 0
    reused: bool = False


class Status(Fault, frozen=True, tag="status"):
    """Answer with an error in the dialect of the path; the message None takes the usual one."""

    status: int = 500
    message: str | None = None
    retry_after_s: float | None = None


class Reset(Fault, frozen=True, tag="reset"):
    """Reset the connection before any byte of the answer."""


class CloseAfterHead(Fault, frozen=True, tag="close_after_head"):
    """Send a regular head, then close."""


class Cut(Fault, frozen=True, tag="cut"):
    """End the connection in the middle of the answer.

    Attributes:
        after_events: token events sent before; an answer that is not streamed is cut half-way,
            short of the length its head has promised.
        how: with a regular close, with a reset, or inside a chunk whose announced length is not
            reached. A reset may overtake bytes on their way.
    """

    after_events: int = 1
    how: Literal["close", "reset", "mid_chunk"] = "close"


class Stall(Fault, frozen=True, tag="stall"):
    """Stop after so many tokens, holding the slot; go on after `for_s`, None for never."""

    after_events: int = 0
    for_s: float | None = None


class BlackHole(Fault, frozen=True, tag="black_hole"):
    """Read the request and never answer, holding no slot."""


class SlowHead(Fault, frozen=True, tag="slow_head"):
    """Send the head of the answer byte by byte, evenly over `for_s`."""

    for_s: float = 1.0


class Garbage(Fault, frozen=True, tag="garbage"):
    """Answer with bytes that are not HTTP, then close."""

    content: bytes = b"\x16\x03\x01\x00\xffthis is not the protocol you are looking for\r\n\r\n"


class Nonsense(Fault, frozen=True, tag="nonsense"):
    """Answer a status path with 200 and JSON of no meaning, or with text that is no JSON."""

    path: str = STATUS_PATHS
    body: str = '{"data":[{"id":7},null,"x"],"models":{"name":[]},"total_slots":"many"}'


class IdleClose(Fault, frozen=True, tag="idle_close"):
    """After the answer, close the kept-alive connection once it has been idle for `after_s`."""

    after_s: float = 0.0


class WaitUntilIdle(Fault, frozen=True, tag="wait_until_idle"):
    """Answer a status path only when no slot is busy, as engines with one thread for all do."""

    path: str = STATUS_PATHS


class KeepComputing(Fault, frozen=True, tag="keeps_computing_after_hangup"):
    """Keep the slot until the whole answer is computed, though the client has left."""


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of a scripted answer and when they are sent, in s after the request was read."""

    at_s: float
    content: bytes


class Script(Fault, frozen=True, tag="script"):
    """Answer with exactly these bytes at these times, on no slot.

    Attributes:
        pieces: in order of time; base64 in JSON. Each is written in one go, and is one chunk
            where the framing is chunked.
        framing: how the client learns where the body ends.
    """

    pieces: tuple[Piece, ...] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()
    framing: Literal["chunked", "length", "close"] = "chunked"


AnyFault = (
    Status
    | Reset
    | CloseAfterHead
    | Cut
    | Stall
    | BlackHole
    | SlowHead
    | Garbage
    | Nonsense
    | IdleClose
    | WaitUntilIdle
    | KeepComputing
    | Script
)

_KINDS = frozenset(str(each.__struct_config__.tag) for each in get_args(AnyFault))

# Short names for what is scripted most.
_SHORT: dict[str, dict[str, object]] = {
    "busy": {"kind": "status", "status": 503, "message": OLLAMA_BUSY},
    "rate_limited": {"kind": "status", "status": 429, "retry_after_s": 1},
    "model_not_found": {"kind": "status", "status": 404},
    "too_large": {"kind": "status", "status": 413},
}


def parse_fault(text: str) -> AnyFault:
    """A fault from JSON or the short form `kind,setting=value,...`; raises SettingsError."""
    try:
        if text.lstrip().startswith("{"):
            decoded: AnyFault = msgspec.json.decode(text, type=AnyFault)
            return decoded
        kind, *settings = text.strip().split(",")
        fields: dict[str, object] = dict(_SHORT.get(kind, {"kind": kind}))
        if kind.isdecimal():
            fields = {"kind": "status", "status": kind}
        for setting in settings:
            name, _, value = setting.partition("=")
            fields[name.strip()] = value
        fault: AnyFault = msgspec.convert(fields, AnyFault, strict=False)
        return fault
    except msgspec.MsgspecError as error:
        raise SettingsError(
            f"The fault {text!r} is not one the echo engine knows: {error}; the kinds are"
            f" {', '.join(sorted({*_KINDS, *_SHORT}))}."
        ) from None


def parse_faults(body: bytes) -> list[AnyFault]:
    """The faults of POST /echo/faults, a JSON list of either form; raises SettingsError."""
    try:
        return [
            parse_fault(item if isinstance(item, str) else msgspec.json.encode(item).decode())
            for item in msgspec.json.decode(body, type=list[str | dict[str, object]])
        ]
    except msgspec.MsgspecError as error:
        raise SettingsError(f"Faults are a JSON list of objects or short forms: {error}.") from None


def kind_of(fault: AnyFault) -> str:
    """The kind of `fault`, as it is written in scripts."""
    return str(fault.__struct_config__.tag)


def header_text(fault: AnyFault) -> str:
    """The value of `x-echo-fault` that stands for `fault`."""
    return msgspec.json.encode(fault).decode()


class _Counted:
    """One fault with its count of matching requests."""

    def __init__(self, fault: AnyFault) -> None:
        self.fault = fault
        self._patterns = fault.path.split("|") if fault.path else []
        self._matched = 0
        # Reproducible draws are the purpose; nothing here is a secret.
        self._random = random.Random(fault.seed)  # noqa: S311 - no secret

    def matches(self, path: str, for_work: bool, reused: bool) -> bool:
        if self.fault.reused and not reused:
            return False
        if not self._patterns:
            return for_work
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self._patterns)

    def strikes(self) -> bool:
        """Count one matching request and say whether it is struck."""
        self._matched += 1
        fault = self.fault
        number = self._matched - fault.skip
        if number < 1 or (fault.first is not None and number > fault.first):
            return False
        if number % max(1, fault.every) != 0:
            return False
        return fault.probability >= 1.0 or self._random.random() < fault.probability


class FaultBook:
    """The faults in force. The first that strikes a request is applied, alone."""

    def __init__(self, faults: Iterable[AnyFault]) -> None:
        self._rules = [_Counted(fault) for fault in faults]
        self._by_header: OrderedDict[str, _Counted] = OrderedDict()

    def set(self, *faults: AnyFault | str) -> None:
        """Replace all faults, and with them their counts."""
        self._rules = [
            _Counted(parse_fault(fault) if isinstance(fault, str) else fault) for fault in faults
        ]
        self._by_header.clear()

    def clear(self) -> None:
        """No faults from now on, save those that requests ask for by header."""
        self.set()

    def pick(
        self, path: str, header: str | None, *, for_work: bool, reused: bool
    ) -> AnyFault | None:
        """The fault for this request; a header decides alone. Raises SettingsError."""
        if header is not None:
            rule = self._rule_of_header(header)
            return rule.fault if rule.strikes() else None
        for rule in self._rules:
            if rule.matches(path, for_work, reused) and rule.strikes():
                return rule.fault
        return None

    def _rule_of_header(self, header: str) -> _Counted:
        rule = self._by_header.get(header)
        if rule is None:
            rule = self._by_header[header] = _Counted(parse_fault(header))
            if len(self._by_header) > _HEADER_FAULTS_LIMIT:
                self._by_header.popitem(last=False)
        return rule
