from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.decaying import Decaying
from pair.core.estimates import (
    CHARS_PER_TOKEN,
    OUTPUT_TOKENS,
    Estimates,
    Finished,
    Learned,
    LearnedModel,
    LearnedReplica,
)
from pair.core.events import Usage
from pair.core.names import EngineName, ModelName, NodeId, ReplicaId
from pair.core.speeds import LOAD_S, Speed

MODEL = ModelName("m")


def replica_named(node: str, model: ModelName = MODEL) -> ReplicaId:
    return ReplicaId(NodeId(node), EngineName("e"), model)


REPLICA = replica_named("n")
ANY_FLOAT = st.floats() | st.floats(0, 1e6)
ANY_COUNT = st.none() | st.integers(-10, 10**12)
USAGES = st.builds(
    Usage,
    ANY_COUNT,
    ANY_COUNT,
    ANY_COUNT,
    st.none() | ANY_FLOAT,
    st.none() | ANY_FLOAT,
    st.none() | ANY_FLOAT,
)
CALLS = st.builds(
    Finished,
    replica=st.sampled_from([replica_named(f"n{number}") for number in range(9)]),
    model=st.sampled_from([ModelName(f"m{number}") for number in range(9)]),
    prompt_chars=st.integers(-5, 10**10),
    usage=USAGES,
    first_byte_s=st.none() | ANY_FLOAT,
    service_s=ANY_FLOAT,
    busy=st.integers(-1, 10**6),
    expected_cached_tokens=st.none() | ANY_FLOAT,
)


def answered(
    prefill_s: float = 1.0,
    decode_s: float = 2.0,
    *,
    prompt: int | None = 1000,
    cached: int | None = 0,
    output: int | None = 100,
    streamed: bool = False,
    timed: bool = False,
    chars: int = 4000,
    busy: int = 1,
    load_s: float | None = None,
) -> Finished:
    """A call as it would look: with the engine's clocks, as a stream, or neither."""
    waited_s = prefill_s + (load_s or 0.0)
    return Finished(
        REPLICA,
        MODEL,
        chars,
        Usage(
            prompt,
            cached,
            output,
            prefill_s if timed else None,
            decode_s if timed else None,
            load_s,
        ),
        waited_s if streamed else None,
        waited_s + decode_s,
        busy,
    )


def taught(*calls: Finished) -> Estimates:
    estimates = Estimates(8)
    for at, call in enumerate(calls):
        estimates.learn(call, float(at))
    return estimates


def speed_of(*calls: Finished, busy: int = 1) -> Speed:
    speed = taught(*calls).speed(REPLICA, busy)
    assert speed is not None
    return speed


def test_before_anything_is_learned_nothing_is_said_of_a_replica() -> None:
    estimates = Estimates(4)
    assert estimates.speed(REPLICA) is None
    assert estimates.chars_per_token(MODEL) == CHARS_PER_TOKEN
    assert estimates.prompt_tokens(MODEL, 400) == 100
    assert estimates.output_tokens(MODEL, None) == OUTPUT_TOKENS
    assert estimates.output_tokens(MODEL, 16) == 16
    assert estimates.output_tokens(MODEL, 0) == 0


@pytest.mark.parametrize(("streamed", "timed"), [(True, False), (False, True), (True, True)])
def test_one_call_tells_both_rates(streamed: bool, timed: bool) -> None:
    speed = speed_of(answered(streamed=streamed, timed=timed))
    assert speed.prefill_tokens_per_s == pytest.approx(1000)
    assert speed.tpot_s == pytest.approx(0.02, rel=0.02)
    assert speed.service_s(500, 50) == pytest.approx(1.5, rel=0.02)
    assert speed.service_s(500, 50, resident=False) == pytest.approx(1.5 + LOAD_S, rel=0.02)


def test_what_was_cached_was_not_read() -> None:
    assert speed_of(answered(0.1, cached=900, timed=True)).prefill_tokens_per_s == pytest.approx(
        1000
    )
    expected = replace(
        answered(0.1, cached=None, timed=True), expected_cached_tokens=900.0
    )  # the engine does not say
    assert speed_of(expected).prefill_tokens_per_s == pytest.approx(1000)


def test_hits_that_an_engine_does_not_tell_do_not_make_it_fast() -> None:
    fresh, hit = answered(cached=None, timed=True), answered(0.02, cached=None, timed=True)
    speed = speed_of(*([fresh] * 3 + [hit] * 5) * 3)
    assert 900 < speed.prefill_tokens_per_s < 1500


def test_hits_that_nobody_foresaw_do_not_either_but_a_free_machine_shows() -> None:
    usual = replace(answered(cached=None, timed=True), expected_cached_tokens=0.0)
    fast = replace(answered(0.1, cached=None, timed=True), expected_cached_tokens=0.0)
    assert speed_of(*[usual] * 5, *[fast] * 3).prefill_tokens_per_s < 1400
    assert speed_of(*[usual] * 5, *[fast] * 50).prefill_tokens_per_s > 8000


def test_a_short_prompt_says_little_of_the_prefill_rate() -> None:
    """4 tokens in 20 ms are the network, not 200 tokens/s."""
    short = answered(0.02, prompt=4, timed=True)
    assert speed_of(short).prefill_tokens_per_s == pytest.approx(200)
    assert speed_of(short, answered(timed=True)).prefill_tokens_per_s == pytest.approx(
        1000, rel=0.01
    )
    flooded = speed_of(answered(timed=True), *[short] * 50)
    assert flooded.prefill_tokens_per_s == pytest.approx(1000, rel=0.02)


def test_a_wholly_cached_prompt_teaches_decoding_only() -> None:
    speed = speed_of(answered(timed=True), answered(0.03, cached=1000, timed=True))
    assert speed.prefill_tokens_per_s == pytest.approx(1000)


def test_a_stream_that_came_in_one_piece_is_none() -> None:
    """Engines hold tool calls back, so the first byte is nearly the last."""
    held_back = replace(answered(), first_byte_s=2.999)
    assert speed_of(held_back).service_s(1000, 100) == pytest.approx(3.0)
    assert speed_of(held_back).tpot_s > 0.01


def test_one_clock_of_the_engine_tells_the_other_part_too() -> None:
    whole = answered(timed=True)
    for usage in (replace(whole.usage, decode_s=None), replace(whole.usage, prefill_s=None)):
        speed = speed_of(replace(whole, usage=usage))
        assert (speed.prefill_tokens_per_s, speed.tpot_s) == pytest.approx((1000, 0.02))


def test_embeddings_have_no_output() -> None:
    estimates = taught(*[answered(1.0, 0.0, output=None)] * 3)
    speed = estimates.speed(REPLICA)
    assert estimates.output_tokens(MODEL, None) == 0
    assert speed is not None
    assert speed.prefill_tokens_per_s == pytest.approx(1000)


def test_decoding_is_slower_in_company_and_the_nearest_number_stands_for_others() -> None:
    calls = [answered(timed=True, busy=1), answered(decode_s=8.0, timed=True, busy=8)]
    tpots = [speed_of(*calls, busy=busy).tpot_s for busy in (1, 2, 3, 4, 8, 15, 4000, 10**9)]
    assert tpots == pytest.approx([0.02, 0.02, 0.02, 0.08, 0.08, 0.08, 0.08, 0.08])


def test_a_load_is_no_prefill_and_is_learned_where_the_model_was_cold() -> None:
    cold = speed_of(answered(load_s=12.0, streamed=True))
    assert (cold.prefill_tokens_per_s, cold.load_s) == pytest.approx((1000, 12.0))
    assert speed_of(answered(load_s=0.03, streamed=True)).load_s == LOAD_S


def test_clocks_that_say_more_than_the_call_took_are_not_believed() -> None:
    call = answered(streamed=True)
    usage = replace(call.usage, prefill_s=500.0, decode_s=900.0)
    assert speed_of(replace(call, usage=usage)) == speed_of(call)


def test_one_call_that_slept_hardly_rules_and_a_slower_machine_shows() -> None:
    usual, asleep, slower = answered(timed=True), answered(3600.0, timed=True), answered(5.0, 10.0)
    assert speed_of(*[usual] * 9, asleep).service_s(1000, 0) < 1.5
    changed = speed_of(*[usual] * 9, *[replace(slower, first_byte_s=5.0)] * 6)
    assert changed.service_s(1000, 100) == pytest.approx(15.0, rel=0.2)


def test_tokens_are_reckoned_from_characters_where_no_engine_counts() -> None:
    counted = answered(chars=3000, timed=True)
    uncounted = answered(prompt=None, cached=None, chars=1500, prefill_s=0.5, streamed=True)
    estimates = taught(counted, uncounted)
    assert estimates.chars_per_token(MODEL) == pytest.approx(3.0)
    assert estimates.prompt_tokens(MODEL, 300) == pytest.approx(100)
    alone = speed_of(replace(uncounted, prompt_chars=2000))
    assert alone.prefill_tokens_per_s == pytest.approx(1000)


def test_the_template_around_short_prompts_says_little_of_the_ratio() -> None:
    hello = answered(prompt=12, chars=5)
    assert taught(answered(), *[hello] * 50).chars_per_token(MODEL) == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("chars", [100, 100_000])
def test_images_and_left_out_caches_say_nothing_of_the_ratio(chars: int) -> None:
    assert taught(answered(chars=chars)).chars_per_token(MODEL) == CHARS_PER_TOKEN


def test_outputs_are_a_mean_below_the_clients_limit() -> None:
    estimates = taught(answered(output=100), answered(output=300))
    assert estimates.output_tokens(MODEL, None) == pytest.approx(200)
    assert estimates.output_tokens(MODEL, 150) == 150
    many = taught(*[answered(output=100)] * 200, *[answered(output=500)] * 60)
    assert many.output_tokens(MODEL, None) == pytest.approx(500, rel=0.1)


def test_an_answer_of_more_tokens_than_there_was_time_for_is_not_believed() -> None:
    """One count of 1e9 would make every prediction of the model days, for 200 answers."""
    estimates = taught(answered(output=100), answered(output=10**9))
    assert estimates.output_tokens(MODEL, None) == 100


RATES = st.floats(50.0, 20_000.0)
TPOTS = st.floats(0.002, 0.5)
NOISES = st.lists(st.tuples(st.floats(0.8, 1.25), st.floats(0.8, 1.25)), min_size=30, max_size=30)
SHAPES = st.lists(st.tuples(st.integers(200, 8000), st.integers(2, 600)), min_size=30, max_size=30)


@given(RATES, TPOTS, NOISES, SHAPES, st.booleans(), st.integers(1, 16))
def test_the_predicted_speed_is_the_true_one_as_far_as_the_noise_lets_it(
    rate: float,
    tpot_s: float,
    noises: list[tuple[float, float]],
    shapes: list[tuple[int, int]],
    timed: bool,
    busy: int,
) -> None:
    estimates = Estimates(4)
    for (odd_prefill, odd_decode), (prompt, output) in zip(noises, shapes, strict=True):
        decoded = output if timed else output - 1
        call = answered(
            prompt / rate * odd_prefill,
            decoded * tpot_s * odd_decode,
            prompt=prompt,
            output=output,
            timed=timed,
            streamed=not timed,
            busy=busy,
        )
        estimates.learn(call, 0.0)
    speed = estimates.speed(REPLICA, busy)
    assert speed is not None
    assert 0.79 < speed.prefill_tokens_per_s / rate < 1.26
    assert 0.79 < speed.tpot_s / tpot_s < 1.26


@given(RATES, st.floats(1.0, 200.0))
def test_whole_answers_without_clocks_tell_in_the_end_both_rates(
    rate: float, step_ratio: float
) -> None:
    """`step_ratio`: prompt tokens that take as long as an output token, on engines that exist."""
    tpot_s = step_ratio / rate
    estimates = Estimates(4)
    shapes = [(6000, 2), (300, 400)] * 60  # the two kinds of calls tell the rates apart
    for prompt, output in shapes:
        whole_s = prompt / rate + output * tpot_s
        estimates.learn(answered(0.0, whole_s, prompt=prompt, output=output), 0.0)
    speed = estimates.speed(REPLICA)
    assert speed is not None
    for prompt, output in shapes[:2]:
        assert speed.service_s(prompt, output) == pytest.approx(
            prompt / rate + output * tpot_s, rel=0.15
        )


@given(st.lists(CALLS, max_size=30), st.integers(1, 5))
def test_whatever_engines_say_the_tables_are_bounded_and_every_number_is_one(  # I7
    calls: list[Finished], limit: int
) -> None:
    estimates = Estimates(limit)
    for at, call in enumerate(calls):
        estimates.learn(call, at * 1e4)
        for busy in (call.busy, 1, 64):
            speed = estimates.speed(call.replica, busy)
            if speed is not None:
                assert 0.0 < speed.prefill_tokens_per_s < math.inf
                assert 0.0 < speed.tpot_s < math.inf
                assert 0.0 < speed.load_s < math.inf
                assert 0.0 <= speed.service_s(0, 0) < math.inf
        assert 0.0 < estimates.chars_per_token(call.model) < math.inf
        assert 0.0 <= estimates.output_tokens(call.model, None) < math.inf
        assert estimates.output_tokens(call.model, 10) <= 10
    learned = estimates.learned()
    assert len(estimates) == len(learned.replicas) <= limit
    assert len(learned.models) <= limit


def test_the_least_recently_used_are_forgotten() -> None:
    estimates = Estimates(2)
    call = answered(timed=True)
    for node in ("a", "b", "a", "c"):
        estimates.learn(replace(call, replica=replica_named(node)), 0.0)
    known = [node for node in "abc" if estimates.speed(replica_named(node)) is not None]
    assert known == ["a", "c"]


@given(st.lists(CALLS, max_size=20))
def test_what_is_restored_is_what_was_learned(calls: list[Finished]) -> None:
    before = Estimates(16)
    for call in calls:
        before.learn(call, 0.0)
    after = Estimates(16)
    after.restore(before.learned())
    for call in calls:
        assert after.speed(call.replica) == before.speed(call.replica)
        assert after.chars_per_token(call.model) == before.chars_per_token(call.model)
        assert after.output_tokens(call.model, None) == before.output_tokens(call.model, None)


def test_what_was_learned_in_this_life_stands_above_what_is_restored() -> None:
    old, new = taught(answered(4.0, timed=True)).learned(), taught(answered(timed=True))
    new.restore(old)
    speed = new.speed(REPLICA)
    assert speed is not None
    assert speed.prefill_tokens_per_s == pytest.approx(1000)


def test_what_is_restored_counts_as_one_call() -> None:
    estimates = Estimates(4)
    estimates.restore(taught(*[answered(1.0, timed=True)] * 20).learned())
    estimates.learn(answered(2.0, timed=True), 0.0)
    speed = estimates.speed(REPLICA)
    assert speed is not None
    assert speed.prefill_tokens_per_s < 700


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_nothing_impossible_is_restored(value: float) -> None:
    mean = Decaying(value, 1.0)
    estimates = Estimates(4)
    estimates.restore(
        Learned(
            (LearnedReplica(REPLICA, mean, ((0, mean), (99, Decaying(1.0, 1.0))), mean),),
            (LearnedModel(MODEL, mean, -1.0),),
        )
    )
    assert estimates.speed(REPLICA) is None
    assert estimates.chars_per_token(MODEL) == CHARS_PER_TOKEN
    assert estimates.output_tokens(MODEL, None) == OUTPUT_TOKENS


def test_of_a_table_too_small_the_latest_are_restored() -> None:
    learned = Learned(
        tuple(LearnedReplica(replica_named(node), Decaying(9.0, 1.0), (), None) for node in "abc")
    )
    estimates = Estimates(2)
    estimates.restore(learned)
    assert [entry.replica.node for entry in estimates.learned().replicas] == ["b", "c"]
