from __future__ import annotations

from itertools import islice

import pytest

from pair.bench.echo_engine import parse_fault
from tests.chaos.plan import (
    CLIENTS,
    DOWN_LIMIT,
    NODES,
    RETURN_S,
    Act,
    Manner,
    Mishap,
    draw_calls,
    draw_mishaps,
)

SEEDS = range(20)
LENGTH_S = 600.0


def down_at(mishaps: tuple[Mishap, ...], at_s: float) -> set[int]:
    return {
        mishap.node
        for mishap in mishaps
        if mishap.act is not Act.FAULT
        and mishap.at_s <= at_s < mishap.at_s + mishap.for_s + RETURN_S
    }


def test_the_same_seed_draws_the_same() -> None:
    assert draw_mishaps(7, LENGTH_S) == draw_mishaps(7, LENGTH_S)
    assert list(islice(draw_calls(7, 3), 50)) == list(islice(draw_calls(7, 3), 50))
    assert draw_mishaps(7, LENGTH_S) != draw_mishaps(8, LENGTH_S)
    assert next(draw_calls(7, 3)) != next(draw_calls(7, 4))


@pytest.mark.parametrize("seed", SEEDS)
def test_there_is_always_a_second_replica_of_each_model(seed: int) -> None:
    mishaps = draw_mishaps(seed, LENGTH_S)
    for mishap in mishaps:
        down = down_at(mishaps, mishap.at_s)
        assert len(down) <= DOWN_LIMIT <= len(NODES) - 2
        assert sum(NODES[node].local for node in down) <= sum(node.local for node in NODES) - 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_holds_every_act_and_only_faults_that_the_engine_knows(seed: int) -> None:
    mishaps = draw_mishaps(seed, LENGTH_S)
    assert {mishap.act for mishap in mishaps} == set(Act)
    for mishap in mishaps:
        if mishap.act is Act.FAULT:
            assert parse_fault(mishap.fault).first is not None
        assert not mishap.front or NODES[mishap.node].paired


def test_calls_are_of_all_kinds_and_no_mark_comes_twice() -> None:
    calls = [call for client in range(CLIENTS) for call in islice(draw_calls(1, client), 100)]
    assert len({call.mark for call in calls}) == len(calls)
    assert {call.manner for call in calls} == set(Manner)
    assert {call.api for call in calls} == {"openai", "anthropic", "ollama"}
    assert max(call.padding_chars for call in calls) > 1_000_000
    assert min(call.padding_chars for call in calls) < 1_000
