"""Which kind of engine gave these answers.

Kept apart from the asking so that the confusing cases can be written down as data. Engines imitate
each other: SGLang and some llama.cpp builds answer Ollama's `/api/tags`, nearly all have
`/v1/models`, vLLM's `/version` is anybody's, LM Studio says 200 to everything. So the order goes
from what only one kind has to what all have, and only the shape of an answer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from pair.errors import GarbledAnswer
from pair.wire.engine_reports.llamacpp import is_loading, read_props
from pair.wire.engine_reports.openai_list import owners
from pair.wire.engine_reports.reading import Rows, model_name, read_json, read_rows
from pair.wire.node_report import REPORT_PATH, decode_report

SNAPSHOT_PATH = "/pair/v1/snapshot"
OPENAI_LIST_PATH = "/v1/models"

PATHS = (
    REPORT_PATH,
    SNAPSHOT_PATH,
    "/model_info",
    "/get_model_info",
    "/props",
    "/api/v1/models",
    "/api/v0/models",
    "/api/tags",
    "/version",
    OPENAI_LIST_PATH,
)
"""All that is asked to tell the kinds apart; each only reads, none wakes a model."""

PAIR_NODE = "pair node"
PAIR_PROXY = "pair proxy"
NEEDS_KEY = frozenset({401, 403})


class Said(NamedTuple):
    """One answer."""

    status: int
    body: bytes


Answers = Mapping[str, Said]
"""By path; one that got no answer is missing."""


class _Snapshot(Struct):
    v: int
    pair: str
    nodes: Rows


class _ModelPath(Struct):
    model_path: str


class _Version(Struct):
    version: str


class _Models(Struct):
    models: Rows | None


class _ModelRow(Struct):
    key: Any = None
    model: Any = None
    name: Any = None


class _OpenAIList(Struct):
    data: Rows | None


class _OldStudioRow(Struct):
    state: Any = None


def recognised_kind(answers: Answers) -> str | None:
    """The kind of engine, `PAIR_NODE` or `PAIR_PROXY`, or None for anything else."""
    for kind, is_it in _RULES:
        if is_it(answers):
            return kind
    return None


def wants_key(answers: Answers) -> bool:
    """Whether the one path that all engines have is closed to those without a key."""
    listed = answers.get(OPENAI_LIST_PATH)
    return listed is not None and listed.status in NEEDS_KEY


def _is_node(answers: Answers) -> bool:
    body = _found(answers, REPORT_PATH)
    return body is not None and _reads(lambda: decode_report(body))


def _is_proxy(answers: Answers) -> bool:
    return _has_shape(answers, SNAPSHOT_PATH, _Snapshot)


def _is_sglang(answers: Answers) -> bool:
    return _has_shape(answers, "/model_info", _ModelPath) or _has_shape(
        answers, "/get_model_info", _ModelPath
    )


def _is_llamacpp(answers: Answers) -> bool:
    said = answers.get("/props")
    if said is not None and said.status == 200:
        return _reads(lambda: read_props(said.body))
    if said is not None and is_loading(*said):
        return True
    # With a key only the list is open, and one that computes may answer nothing else in time; it
    # says whose it is.
    hidden = said is None or said.status in NEEDS_KEY
    return hidden and "llamacpp" in _owners(answers)


def _is_lmstudio(answers: Answers) -> bool:
    new = _rows(answers, "/api/v1/models", _Models, _ModelRow)
    if new is not None and all(row is not None and model_name(row.key) for row in new):
        return True
    old = _rows(answers, "/api/v0/models", _OpenAIList, _OldStudioRow)
    return old is not None and all(row is not None and isinstance(row.state, str) for row in old)


def _is_ollama(answers: Answers) -> bool:
    rows = _rows(answers, "/api/tags", _Models, _ModelRow)
    return rows is not None and all(
        row is not None and (model_name(row.model) or model_name(row.name)) for row in rows
    )


def _is_vllm(answers: Answers) -> bool:
    if "vllm" in _owners(answers):
        return True
    has_list = _is_generic(answers) or wants_key(answers)
    return has_list and _has_shape(answers, "/version", _Version)


def _is_generic(answers: Answers) -> bool:
    return _has_shape(answers, OPENAI_LIST_PATH, _OpenAIList)


_RULES: tuple[tuple[str, Callable[[Answers], bool]], ...] = (
    # A node passes its engine's own paths on, so it would look like that engine.
    (PAIR_NODE, _is_node),
    (PAIR_PROXY, _is_proxy),
    ("sglang", _is_sglang),
    ("llamacpp", _is_llamacpp),
    ("lmstudio", _is_lmstudio),
    ("ollama", _is_ollama),
    ("vllm", _is_vllm),
    ("generic", _is_generic),
)


def _found(answers: Answers, path: str) -> bytes | None:
    said = answers.get(path)
    return said.body if said is not None and said.status == 200 else None


def _has_shape(answers: Answers, path: str, shape: type[Struct]) -> bool:
    body = _found(answers, path)
    return body is not None and _reads(lambda: read_json(body, shape))


def _rows(
    answers: Answers, path: str, shape: type[_Models] | type[_OpenAIList], row: type[Any]
) -> list[Any] | None:
    """The rows of a list, None if there is no such list at this path."""
    body = _found(answers, path)
    if body is None:
        return None
    try:
        found = read_json(body, shape)
    except GarbledAnswer:
        return None
    rows = found.models if isinstance(found, _Models) else found.data
    return list(read_rows(rows or (), row))


def _owners(answers: Answers) -> frozenset[str]:
    body = _found(answers, OPENAI_LIST_PATH)
    try:
        return frozenset() if body is None else owners(body)
    except GarbledAnswer:
        return frozenset()


def _reads(read: Callable[[], object]) -> bool:
    try:
        read()
    except GarbledAnswer:
        return False
    return True
