"""A node's report as JSON and back.

Separate from the engines' own words (`engine_reports.py`): this form is ours, so it is versioned
and exact. A field that a newer `pair` adds is ignored; a count or a length beyond its bound is
refused, because a report comes from another machine and feeds tables that must stay small
(invariant I7).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from pair.core.names import EngineName, ModelName, NodeId
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState
from pair.errors import GarbledAnswer

REPORT_PATH = "/pair/v1/report"
REPORTS_PATH = "/pair/v1/reports"
"""The same as a stream of lines, one after each change."""
VERSION = 1

TEXT_LIMIT_CHARS = 512
"""Longest name, version or warning."""

WARNINGS_LIMIT = 64
"""Most warnings of one node; a person reads three."""

REPLICAS_LIMIT = 4096
"""Most models of one node; a person's collection has tens."""

ALIASES_LIMIT = 64
"""Most aliases of one replica."""

SLOTS_LIMIT = 4096
"""Most slots of one replica; the largest engines batch hundreds."""

_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f]*\Z"
"""No control characters: these texts are shown in terminals, which obey some."""

_Text = Annotated[str, Meta(max_length=TEXT_LIMIT_CHARS, pattern=_ONE_LINE)]
_Name = Annotated[str, Meta(min_length=1, max_length=TEXT_LIMIT_CHARS, pattern=_ONE_LINE)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
_Slots = Annotated[int, Meta(ge=1, le=SLOTS_LIMIT)]


class _Replica(Struct, omit_defaults=True, gc=False):
    """`ReplicaReport` on the wire."""

    engine: _Name
    engine_kind: _Name
    model: _Name
    aliases: Annotated[list[_Name], Meta(max_length=ALIASES_LIMIT)] = []
    state: ReplicaState = ReplicaState.READY
    slots: _Slots = 1
    running: _Count | None = None
    waiting: _Count | None = None
    yours: _Count | None = None
    resident: bool | None = None
    context_tokens: _Count | None = None
    cache_tokens: _Count | None = None
    any_name: bool = False


class _Report(Struct, gc=False):
    """`NodeReport` on the wire."""

    v: int
    node: _Name
    name: _Text
    version: _Text = ""
    draining: bool = False
    replicas: Annotated[list[_Replica], Meta(max_length=REPLICAS_LIMIT)] = []
    warnings: Annotated[list[_Text], Meta(max_length=WARNINGS_LIMIT)] = []
    process: _Text = ""
    number: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


class _Marks(Struct, gc=False):
    """What a report of any version has."""

    v: Any
    node: Any


_decoder = msgspec.json.Decoder(_Report)
_marks_decoder = msgspec.json.Decoder(_Marks)
_encoder = msgspec.json.Encoder()


def encode_report(report: NodeReport) -> bytes:
    """The report as JSON, cut to what a reader takes; names come checked (`engine_reports`)."""
    return _encoder.encode(
        _Report(
            v=VERSION,
            node=report.node,
            name=_one_line(report.name),
            version=report.version,
            draining=report.draining,
            replicas=[_to_wire(replica) for replica in report.replicas[:REPLICAS_LIMIT]],
            warnings=[_one_line(warning) for warning in report.warnings[:WARNINGS_LIMIT]],
            process=_one_line(report.process),
            number=report.number,
        )
    )


def decode_report(body: bytes) -> NodeReport:
    """The report in this body.

    Raises:
        GarbledAnswer: not a report, of another version, or beyond the bounds; the text says where.
    """
    try:
        report = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise GarbledAnswer(f"the report can't be read: {fault}") from fault
    if report.v != VERSION:
        raise GarbledAnswer(
            f"the report has version {report.v}, this pair reads {VERSION}; update the older one"
        )
    return NodeReport(
        node=NodeId(report.node),
        name=report.name,
        version=report.version,
        draining=report.draining,
        replicas=tuple(_from_wire(replica) for replica in report.replicas),
        warnings=tuple(report.warnings),
        process=report.process,
        number=report.number,
    )


def means_a_report(body: bytes) -> bool:
    """Whether this is a report at all, of whatever version and however wrong in its fields; some
    engines say 200 to every path.
    """
    try:
        _marks_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _one_line(text: str) -> str:
    """A text of this machine in the form that its reader will take."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line[:TEXT_LIMIT_CHARS]


def _to_wire(replica: ReplicaReport) -> _Replica:
    aliases: list[str] = sorted(replica.aliases)
    return _Replica(
        engine=replica.engine,
        engine_kind=replica.engine_kind,
        model=replica.model,
        aliases=aliases[:ALIASES_LIMIT],
        state=replica.state,
        slots=replica.slots,
        running=replica.running,
        waiting=replica.waiting,
        yours=replica.yours,
        resident=replica.resident,
        context_tokens=replica.context_tokens,
        cache_tokens=replica.cache_tokens,
        any_name=replica.any_name,
    )


def _from_wire(replica: _Replica) -> ReplicaReport:
    return ReplicaReport(
        engine=EngineName(replica.engine),
        engine_kind=replica.engine_kind,
        model=ModelName(replica.model),
        aliases=frozenset(ModelName(alias) for alias in replica.aliases) - {replica.model},
        state=replica.state,
        slots=replica.slots,
        running=replica.running,
        waiting=replica.waiting,
        yours=replica.yours,
        resident=replica.resident,
        context_tokens=replica.context_tokens,
        cache_tokens=replica.cache_tokens,
        any_name=replica.any_name,
    )
