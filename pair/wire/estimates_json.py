"""What was learned of the house, as JSON and back: the form of the file that outlives a restart.

Separate from the values (`pair/core/estimates.py`) because this form stays when they change, and
from the file itself (`pair/proxy/memory.py`). A field that a newer `pair` adds is ignored; a number
that cannot be makes the whole file garbled, for then something else has written into it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from pair.core.decaying import Decaying
from pair.core.estimates import Learned, LearnedModel, LearnedReplica
from pair.core.names import EngineName, ModelName, NodeId, ReplicaId
from pair.core.speeds import BUCKETS, bucket_of
from pair.errors import PairError

VERSION = 1

ENTRIES_LIMIT = 65_536
"""Most replicas, and most models, in one file; the least recently used stay out."""

SIZE_LIMIT_BYTES = 64 * 2**20
"""Longest file that is read; one replica with every bucket has about 900 bytes, usually 300."""

_NAME_LIMIT_CHARS = 512
"""As in a node's report."""

_Name = Annotated[str, Meta(max_length=_NAME_LIMIT_CHARS)]
_Positive = Annotated[float, Meta(gt=0.0, le=1e12)]
_Calls = Annotated[int, Meta(ge=1, le=2 ** (BUCKETS - 1))]


class GarbledEstimates(PairError):
    """The text is not what `encode_learned` writes; the message says where it is not."""


class _Mean(Struct, gc=False):
    """`Decaying`, without what only matters between two calls."""

    value: _Positive
    evidence: _Positive


class _Tpot(Struct, gc=False):
    calls_at_once: _Calls
    value: _Positive
    evidence: _Positive


class _Replica(Struct, gc=False, omit_defaults=True):
    node: _Name
    engine: _Name
    model: _Name
    prefill_tokens_per_s: _Mean | None = None
    tpots_s: Annotated[list[_Tpot], Meta(max_length=BUCKETS)] = []
    load_s: _Mean | None = None


class _Model(Struct, gc=False, omit_defaults=True):
    model: _Name
    chars_per_token: _Mean | None = None
    output_tokens: Annotated[float, Meta(ge=0.0, le=1e12)] | None = None


class _File(Struct, gc=False):
    v: int
    replicas: Annotated[list[_Replica], Meta(max_length=ENTRIES_LIMIT)]
    models: Annotated[list[_Model], Meta(max_length=ENTRIES_LIMIT)]


class _Version(Struct, gc=False):
    """What a file of any version has."""

    v: int


_decoder = msgspec.json.Decoder(_File)
_version_decoder = msgspec.json.Decoder(_Version)
_encoder = msgspec.json.Encoder()


def encode_learned(learned: Learned) -> bytes:
    """All of it as JSON that `decode_learned` reads; 3 ms for 1,000 replicas."""
    replicas = [
        _Replica(
            node=entry.replica.node,
            engine=entry.replica.engine,
            model=entry.replica.model,
            prefill_tokens_per_s=_to_wire(entry.prefill_tokens_per_s),
            tpots_s=[_Tpot(2**bucket, mean.value, mean.evidence) for bucket, mean in entry.tpots_s],
            load_s=_to_wire(entry.load_s),
        )
        for entry in learned.replicas[-ENTRIES_LIMIT:]
        if _readable(entry.replica.node, entry.replica.engine, entry.replica.model)
    ]
    models = [
        _Model(entry.model, _to_wire(entry.chars_per_token), entry.output_tokens)
        for entry in learned.models[-ENTRIES_LIMIT:]
        if _readable(entry.model)
    ]
    return _encoder.encode(_File(VERSION, replicas, models))


def decode_learned(text: bytes) -> Learned:
    """What was learned once.

    Raises:
        GarbledEstimates: cut off, of another version, or with a number that cannot be.
    """
    if len(text) > SIZE_LIMIT_BYTES:
        raise GarbledEstimates(f"longer than {SIZE_LIMIT_BYTES} bytes")
    try:
        version = _version_decoder.decode(text).v
        if version != VERSION:
            raise GarbledEstimates(f"of version {version}, this pair reads {VERSION}")
        file = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise GarbledEstimates(str(fault)) from fault
    return Learned(
        tuple(_from_wire(replica) for replica in file.replicas),
        tuple(
            LearnedModel(ModelName(model.model), _mean(model.chars_per_token), model.output_tokens)
            for model in file.models
        ),
    )


def _readable(*names: str) -> bool:
    """Whether the reader takes these; engines' lists may have halves of characters in them."""
    return all(
        len(name) <= _NAME_LIMIT_CHARS and not any("\ud800" <= char <= "\udfff" for char in name)
        for name in names
    )


def _from_wire(replica: _Replica) -> LearnedReplica:
    return LearnedReplica(
        ReplicaId(NodeId(replica.node), EngineName(replica.engine), ModelName(replica.model)),
        _mean(replica.prefill_tokens_per_s),
        tuple(
            (bucket_of(tpot.calls_at_once), Decaying(tpot.value, tpot.evidence))
            for tpot in replica.tpots_s
        ),
        _mean(replica.load_s),
    )


def _to_wire(mean: Decaying | None) -> _Mean | None:
    return None if mean is None else _Mean(mean.value, mean.evidence)


def _mean(mean: _Mean | None) -> Decaying | None:
    return None if mean is None else Decaying(mean.value, mean.evidence)
