"""Snapshots and job reports as JSON-ready dicts: the form of `/pair/v1/snapshot` and
`/pair/v1/jobs`.

The shapes stand in `docs/http-api.md`. Separate from the values (`pair/core/snapshot.py`) because
this form is a contract with scripts and must stay when the values change.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pair.core.job_reports import JobReport
from pair.core.jobs import Call, Job
from pair.core.names import Outcome, TicketId
from pair.core.snapshot import ModelView, NodeView, ReplicaView, Snapshot

VERSION = 1
NOBODY_WAITS: Final[Mapping[TicketId, str]] = MappingProxyType({})
_MS = 3
"""Digits kept of a duration in seconds: milliseconds. Of rates, too: slow engines have few."""


def snapshot_json(snapshot: Snapshot, *, version: str, proxy_id: str) -> dict[str, Any]:
    """The whole state; `version` is this pair's own."""
    return {
        "v": VERSION,
        "pair": version,
        "id": proxy_id,
        "uptime_s": round(snapshot.uptime_s, _MS),
        "strategy": snapshot.strategy,
        "strategies": dict(snapshot.strategies),
        "draining": snapshot.draining,
        "waiting": snapshot.waiting,
        "waiting_limit": snapshot.waiting_limit,
        "in_flight": snapshot.in_flight,
        "tickets": {
            "opened": snapshot.opened,
            **{outcome.value: snapshot.closed[outcome] for outcome in Outcome},
        },
        "nodes": [_node_json(node) for node in snapshot.nodes],
        "models": [_model_json(model) for model in snapshot.models],
    }


def _node_json(node: NodeView) -> dict[str, Any]:
    return {
        "id": node.id,
        "name": node.name,
        "phase": node.phase.value,
        "phase_s": round(node.phase_s, _MS),
        "reason": node.reason,
        "addresses": list(node.addresses),
        "fixed": node.fixed,
        "version": node.version,
        "warnings": list(node.warnings),
        "answered_s": _rounded(node.answered_s),
        "missed_probes": node.missed_probes,
        "replicas": [_replica_json(replica) for replica in node.replicas],
    }


def _replica_json(replica: ReplicaView) -> dict[str, Any]:
    return {
        "model": replica.model,
        "aliases": list(replica.aliases),
        "engine": replica.engine,
        "engine_kind": replica.engine_kind,
        "state": str(replica.state),
        "state_s": round(replica.state_s, _MS),
        "resident": replica.resident,
        "context_tokens": replica.context_tokens,
        "slots": replica.slots,
        "in_flight": replica.in_flight,
        "draining": replica.draining,
        "foreign": replica.foreign,
        "queue_depth": replica.queue_depth,
        "served": replica.served,
        "failed": replica.failed,
        "set_aside_s": round(replica.set_aside_s, _MS),
        "unproven": replica.unproven,
        "set_aside_reason": replica.set_aside_reason,
        "prefill_tokens_per_s": _rounded(replica.prefill_tokens_per_s),
        "decode_tokens_per_s": _rounded(None if not replica.tpot_s else 1 / replica.tpot_s),
        "load_s": _rounded(replica.load_s),
        "prompt_tokens": replica.prompt_tokens,
        "cached_tokens": replica.cached_tokens,
        "output_tokens": replica.output_tokens,
    }


def _model_json(model: ModelView) -> dict[str, Any]:
    return {
        "model": model.model,
        "nodes": model.nodes,
        "slots": model.slots,
        "in_flight": model.in_flight,
        "waiting": model.waiting,
        "oldest_wait_s": round(model.oldest_wait_s, _MS),
        "strategy": model.strategy,
    }


def job_json(
    job: Job,
    report: JobReport,
    *,
    unix_offset_s: float,
    calls: bool,
    waits: Mapping[TicketId, str] = NOBODY_WAITS,
) -> dict[str, Any]:
    """One job.

    Args:
        unix_offset_s: added to a time of the core gives Unix time.
        calls: put each call in.
        waits: why those wait that do so beside a free slot.
    """
    outcomes = [call.outcome for call in job.calls.values()]
    usages = [call.usage for call in job.calls.values()]
    shown = {
        "id": job.id,
        "named": job.named,
        "state": "running" if job.running else "done",
        "model": ", ".join(sorted({call.model for call in job.calls.values()})),
        "started_at": round(job.opened_at + unix_offset_s, _MS),
        "calls_total": job.calls_total,
        "makespan_s": _rounded(report.makespan_s),
        "waves": report.waves,
        "limit": _rounded(report.limit),
        "achieved": _rounded(report.achieved),
        "efficiency": _rounded(report.efficiency),
        "baseline": report.baseline,
        "baseline_s": _rounded(report.baseline_s),
        "baseline_node": report.baseline_node,
        "fastest_alone": report.fastest_alone,
        "fastest_alone_s": _rounded(report.fastest_alone_s),
        "fastest_alone_node": report.fastest_alone_node,
        "nodes": [
            {
                "node": share.node,
                "name": share.name,
                "slots": share.slots,
                "calls": share.calls,
                "service_s": _rounded(share.service_s),
            }
            for share in report.nodes
        ],
        **{outcome.value: outcomes.count(outcome) for outcome in Outcome},
        "prompt_tokens": _total([usage.prompt_tokens for usage in usages]),
        "cached_tokens": _total([usage.cached_tokens for usage in usages]),
        "output_tokens": _total([usage.output_tokens for usage in usages]),
        "note": report.note,
    }
    if calls:
        shown["calls"] = [
            _call_json(call, job.opened_at, waits.get(call.ticket, call.reason))
            for call in job.calls.values()
        ]
    return shown


def _call_json(call: Call, start: float, reason: str) -> dict[str, Any]:
    return {
        "ticket": call.ticket,
        "node": call.node,
        "name": call.node_name,
        "engine": call.engine,
        "model": call.model,
        "opened_s": round(call.opened_at - start, _MS),
        "queue_s": round(call.queued_s, _MS),
        "granted_s": _since(call.granted_at, start),
        "first_byte_s": _since(call.first_byte_at, start),
        "ttft_s": _since(call.first_byte_at, call.opened_at),
        "done_s": _since(call.closed_at, start),
        "service_s": _rounded(call.service_s),
        "prompt_tokens": call.usage.prompt_tokens,
        "cached_tokens": call.usage.cached_tokens,
        "output_tokens": call.usage.output_tokens,
        "outcome": None if call.outcome is None else call.outcome.value,
        "attempts": call.attempts,
        "reason": reason,
        "detail": call.detail,
        "streamed": call.streamed,
        "client": call.client,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _MS)


def _since(at: float | None, start: float) -> float | None:
    return None if at is None else round(at - start, _MS)


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
