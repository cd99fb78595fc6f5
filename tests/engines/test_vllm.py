from __future__ import annotations

from pair.engines.vllm import VLLM
from tests.engines.scripted_engine import report_of

LIST = {"data": [{"id": "q", "owned_by": "vllm", "root": "/q", "max_model_len": 4096}]}
METRICS = b'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_waiting{engine="0"} 1.0\n'


async def test_its_load_and_a_warning_that_its_slots_are_unknown() -> None:
    report = await report_of(VLLM, {"/v1/models": LIST, "/metrics": METRICS})
    (replica,) = report.replicas
    assert (replica.slots, replica.running, replica.waiting) == (1, 3, 1)
    assert replica.context_tokens == 4096
    assert "--max-num-seqs" in report.warnings[0]


async def test_slots_that_it_tells_need_no_warning() -> None:
    metrics = METRICS + b'vllm:max_num_seqs{engine="0"} 256.0\n'
    report = await report_of(VLLM, {"/v1/models": LIST, "/metrics": metrics})
    assert (report.replicas[0].slots, report.warnings) == (256, ())


async def test_slots_that_the_user_tells_need_none_either() -> None:
    report = await report_of(lambda url: VLLM(url, slots=64), {"/v1/models": LIST})
    assert (report.replicas[0].slots, report.warnings) == (64, ())
