from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from pair.bench.echo_engine import tokenizer
from pair.bench.echo_engine.faults import AnyFault, KeepComputing, Stall
from pair.bench.echo_engine.generation import Call, Outcome, Refusal, Workbench
from pair.bench.echo_engine.journal import Journal
from tests.bench.echo_engine.calling import LATE_S, LIMIT_S, settings


def workbench(**changes: Any) -> Workbench:
    return Workbench(settings(**changes), Journal(100))


def call(words: str = "words", tokens: int | None = 10, prompt_tokens: int = 10) -> Call:
    return Call("m", prompt=words[:1] * (prompt_tokens * 4), words=words, answer_tokens=tokens)


async def run(
    bench: Workbench, given: Call, fault: AnyFault | None = None
) -> tuple[Outcome, list[tuple[float, list[str]]]]:
    """The outcome of a call, and its tokens by the time (s since the start) when they came."""
    batches = []
    began_s = time.monotonic()
    entry = bench.journal.open("/v1/x", "", ())
    async with bench.generate(given, entry, fault) as generation:
        while tokens := await generation.next_tokens():
            batches.append((time.monotonic() - began_s, tokens))
    return generation.outcome, batches


async def test_a_call_takes_the_time_that_the_rates_say() -> None:
    bench = workbench(prefill_rate_tokens_per_s=100, decode_rate_tokens_per_s=100)
    outcome, batches = await run(bench, call(tokens=30, prompt_tokens=20))
    # 20 tokens to read and 30 to write, 10 ms each.
    assert 0.5 <= batches[-1][0] < 0.5 + LATE_S
    assert 0.21 <= batches[0][0] < 0.21 + LATE_S
    assert [token for _, tokens in batches for token in tokens] == tokenizer.pieces(
        outcome.text, 0, 30
    )
    assert outcome.prefill_s == pytest.approx(0.2, abs=LATE_S)
    assert outcome.decode_s == pytest.approx(0.3, abs=LATE_S)


async def test_no_token_is_early_and_lateness_does_not_add_up() -> None:
    bench = workbench(decode_rate_tokens_per_s=200)
    _, batches = await run(bench, call(tokens=100))
    count = 0
    for at_s, tokens in batches:
        count += len(tokens)
        assert at_s >= count / 200 - 0.001
    assert count == 100
    assert batches[-1][0] < 0.5 + LATE_S


async def test_what_takes_no_time_comes_at_once() -> None:
    _, batches = await run(workbench(), call(tokens=500))
    assert [len(tokens) for _, tokens in batches] == [500]


async def test_slots_do_not_hinder_each_other_unless_told_to() -> None:
    for slowdown, factor in ((0.0, 1.0), (0.5, 2.0)):
        bench = workbench(slots=3, decode_rate_tokens_per_s=100, slowdown_per_busy_slot=slowdown)
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(run(bench, call(tokens=20)))
        assert 0.2 * factor <= time.monotonic() - began_s < 0.2 * factor + LATE_S
        assert bench.journal.counters.max_running == 3


async def test_one_slot_serves_one_after_the_other() -> None:
    bench = workbench(decode_rate_tokens_per_s=100)
    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(run(bench, call(tokens=10))) for _ in range(3)]
    assert 0.3 <= time.monotonic() - began_s < 0.3 + LATE_S
    assert [task.result()[0].queue_s for task in calls] == pytest.approx([0, 0.1, 0.2], abs=LATE_S)


async def test_cached_tokens_are_not_read_again() -> None:
    bench = workbench(prefill_rate_tokens_per_s=200)
    first, _ = await run(bench, call(prompt_tokens=60))
    began_s = time.monotonic()
    again, _ = await run(bench, call(prompt_tokens=60))
    assert (first.cached_tokens, again.cached_tokens) == (0, 59)
    assert time.monotonic() - began_s < 0.05 + LATE_S
    assert first.prefill_s == pytest.approx(0.3, abs=LATE_S)


async def test_the_slot_remembers_the_answer_too() -> None:
    bench = workbench()
    prompt = tokenizer.render([("user", "say it")])
    outcome, _ = await run(bench, Call("m", prompt, words="say it", answer_tokens=5))
    following = prompt + outcome.text + tokenizer.whole_tokens("and more")
    assert (await run(bench, Call("m", following)))[0].cached_tokens == tokenizer.count(prompt) + 5


async def test_a_stall_holds_the_slot_and_delays_what_follows() -> None:
    bench = workbench(decode_rate_tokens_per_s=100)
    _, batches = await run(bench, call(tokens=6), Stall(after_events=3, for_s=0.3))
    times_s = [at_s for at_s, tokens in batches for _ in tokens]
    assert times_s[2] < 0.03 + LATE_S
    assert 0.34 <= times_s[3] < 0.34 + LATE_S
    assert 0.36 <= times_s[5] < 0.36 + LATE_S


async def test_an_instant_answer_stalls_at_the_right_token() -> None:
    _, batches = await run(workbench(), call(tokens=6), Stall(after_events=2, for_s=0.1))
    assert [len(tokens) for _, tokens in batches] == [2, 4]
    assert batches[1][0] >= 0.1


async def test_who_leaves_while_the_prompt_is_read_leaves_what_was_read() -> None:
    bench = workbench(prefill_rate_tokens_per_s=100)
    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(run(bench, call(prompt_tokens=1000)))
        await bench.pace.until(bench.pace.work_s() + 0.2)
        leaving.cancel()
    outcome, _ = await run(workbench_with_fast_prefill(bench), call(prompt_tokens=1000))
    assert 20 <= outcome.cached_tokens < 20 + 100 * LATE_S
    assert bench.journal.counters.running == 0


def workbench_with_fast_prefill(bench: Workbench) -> Workbench:
    """Another engine with the same slots, so that a test need not wait for the whole prompt."""
    fast = workbench()
    fast.slots = bench.slots
    return fast


async def test_a_slot_is_free_with_the_last_token_and_kept_while_computing_unheard() -> None:
    bench = workbench(decode_rate_tokens_per_s=100)
    counters = bench.journal.counters
    entry = bench.journal.open("/v1/x", "", ())
    async with bench.generate(call(tokens=1), entry, None) as generation:
        assert counters.running == 1
        assert len(await generation.next_tokens()) == 1
        assert counters.running == 0

    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(run(bench, call(tokens=30), KeepComputing()))
        await bench.journal.until(lambda: counters.running == 1, LIMIT_S)
        leaving.cancel()
    assert counters.running == 1
    await bench.journal.until(lambda: counters.running == 0, LIMIT_S)
    assert 0.3 <= time.monotonic() - began_s < 0.3 + LATE_S
    assert bench.journal.entries[-1].output_tokens == 30


async def test_limits_of_the_context() -> None:
    bench = workbench(context_tokens=20, answer_tokens=8)
    with pytest.raises(Refusal, match="20 tokens") as refused:
        await run(bench, call(prompt_tokens=20))
    assert refused.value.status == 400
    for tokens, prompt_tokens, wanted, finish in (
        (None, 10, 8, "stop"),
        (None, 15, 5, "length"),
        (3, 10, 3, "length"),
        (100, 10, 10, "length"),
    ):
        outcome, _ = await run(bench, call(tokens=tokens, prompt_tokens=prompt_tokens))
        assert (outcome.output_tokens, outcome.finish) == (wanted, finish)


async def test_a_full_queue_is_a_refusal() -> None:
    bench = workbench(queue_limit=0, decode_rate_tokens_per_s=1)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(run(bench, call()))
        await bench.journal.until(lambda: bench.journal.counters.running == 1, LIMIT_S)
        with pytest.raises(Refusal) as refused:
            await run(bench, call())
        working.cancel()
    assert (refused.value.status, refused.value.kind) == (503, "busy")


async def test_sums_of_the_journal() -> None:
    bench = workbench(prefill_rate_tokens_per_s=1000, decode_rate_tokens_per_s=1000)
    for _ in range(2):
        await run(bench, call(tokens=20, prompt_tokens=50))
    counters = bench.journal.counters
    assert (counters.prompt_tokens, counters.cached_tokens, counters.output_tokens) == (51, 49, 40)
    assert counters.prefill_s == pytest.approx(0.051, abs=LATE_S)
    assert counters.decode_s == pytest.approx(0.040, abs=LATE_S)
    bench.reset()
    assert (await run(bench, call(prompt_tokens=50)))[0].cached_tokens == 0
