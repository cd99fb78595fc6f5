"""Snapshots and jobs as the proxy's JSON gives them, with what a test wants different."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType

Json = dict[str, Any]


def text_of(renderable: RenderableType, *, width: int = 160, encoding: str = "utf-8") -> str:
    """What a plain stream of this width and encoding gets."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, color_system=None, highlight=False, markup=False)
    console.print(renderable)
    stream.seek(0)
    return stream.read()


def words(text: str) -> list[list[str]]:
    """Each line's words, empty lines left out."""
    return [line.split() for line in text.splitlines() if line.strip()]


def replica(model: str = "tiny", **changes: Any) -> Json:
    return {
        "model": model,
        "aliases": [],
        "engine": "llamacpp:8080",
        "engine_kind": "llamacpp",
        "state": "ready",
        "state_s": 12.0,
        "resident": True,
        "context_tokens": 4096,
        "slots": 2,
        "in_flight": 1,
        "draining": 0,
        "foreign": 0,
        "queue_depth": 0,
        "served": 7,
        "failed": 0,
        "set_aside_s": 0,
        "unproven": False,
        "set_aside_reason": "",
        "prefill_tokens_per_s": None,
        "decode_tokens_per_s": None,
        "load_s": None,
        "prompt_tokens": 0,
        "cached_tokens": None,
        "output_tokens": 0,
    } | changes


def node(name: str, *replicas: Json, **changes: Any) -> Json:
    return {
        "id": f"id-{name}",
        "name": name,
        "phase": "ready",
        "phase_s": 4.2,
        "reason": "it answered",
        "addresses": ["http://192.168.1.20:7248"],
        "fixed": False,
        "version": "0.1.0",
        "warnings": [],
        "answered_s": 0.3,
        "missed_probes": 0,
        "replicas": list(replicas),
    } | changes


def model(name: str = "tiny", **changes: Any) -> Json:
    return {
        "model": name,
        "nodes": 2,
        "slots": 3,
        "in_flight": 1,
        "waiting": 0,
        "oldest_wait_s": 0.0,
        "strategy": "queue-depth",
    } | changes


def snapshot(*nodes: Json, **changes: Any) -> Json:
    return {
        "v": 1,
        "pair": "0.1.0",
        "id": "proxy",
        "uptime_s": 12.0,
        "strategy": "queue-depth",
        "strategies": {},
        "draining": False,
        "waiting": 0,
        "waiting_limit": 1000,
        "in_flight": 1,
        "tickets": {"opened": 9, "answered": 8, "refused": 0, "client_left": 0, "failed": 0},
        "nodes": list(nodes),
        "models": [],
    } | changes


def call(
    node: str | None,
    opened_s: float,
    granted_s: float | None,
    first_byte_s: float | None,
    done_s: float | None,
    **changes: Any,
) -> Json:
    """One call; the durations follow from the times."""
    served = granted_s is not None and done_s is not None
    return {
        "ticket": 1,
        "node": None if node is None else f"id-{node}",
        "name": node or "",
        "engine": "llamacpp:8080",
        "model": "tiny",
        "opened_s": opened_s,
        "queue_s": None if granted_s is None else granted_s - opened_s,
        "granted_s": granted_s,
        "first_byte_s": first_byte_s,
        "ttft_s": None if first_byte_s is None else first_byte_s - opened_s,
        "done_s": done_s,
        "service_s": done_s - granted_s if served else None,  # type: ignore[operator]
        "prompt_tokens": 180,
        "cached_tokens": 10,
        "output_tokens": 64,
        "outcome": None if done_s is None else "answered",
        "attempts": 1,
        "reason": "shortest queue",
        "detail": "",
        "streamed": True,
        "client": "127.0.0.1:5000",
    } | changes


def job(*calls: Json, **changes: Any) -> Json:
    """A done job of these calls on two nodes of one slot, `a` and `b`."""
    return {
        "id": "team-1",
        "named": True,
        "state": "done",
        "model": "tiny",
        "started_at": 1_700_000_000.0,
        "calls_total": len(calls),
        "makespan_s": 4.0,
        "waves": 2,
        "limit": 2.0,
        "achieved": 1.9,
        "efficiency": 0.95,
        "baseline": "measured",
        "baseline_s": 7.6,
        "baseline_node": "id-a",
        "fastest_alone": "predicted",
        "fastest_alone_s": 7.4,
        "fastest_alone_node": "id-b",
        "nodes": [
            {"node": f"id-{name}", "name": name, "slots": 1, "calls": 2, "service_s": 2.0}
            for name in ("a", "b")
        ],
        "answered": len(calls),
        "failed": 0,
        "refused": 0,
        "client_left": 0,
        "output_tokens": 256,
        "prompt_tokens": 720,
        "cached_tokens": 40,
        "note": "",
        "calls": list(calls),
    } | changes
