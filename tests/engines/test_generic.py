from __future__ import annotations

from pair.engines.generic import Generic
from tests.engines.scripted_engine import report_of


async def test_its_models_have_one_slot_each() -> None:
    report = await report_of(Generic, {"/v1/models": {"data": [{"id": "a"}, {"id": "b"}]}})
    assert [(r.model, r.engine_kind, r.slots, r.running) for r in report.replicas] == [
        ("a", "generic", 1, None),
        ("b", "generic", 1, None),
    ]
