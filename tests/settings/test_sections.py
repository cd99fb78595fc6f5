"""The table of knobs itself: complete, usable as it stands, and without two names for one thing."""

from __future__ import annotations

from dataclasses import fields

from pair.cli.knobs import checked, knobs, value_of
from pair.core.names import ModelName
from pair.settings import ModelStrategy, Settings


def test_every_default_passes_the_check_that_a_users_value_must_pass() -> None:
    for key, knob in knobs().items():
        assert checked(knob, knob.default) == knob.default, key
        assert value_of(Settings(), key) == knob.default, key


def test_every_knob_says_what_it_does_and_why_in_a_sentence() -> None:
    for key, knob in knobs().items():
        assert len(knob.reason.split()) > 2, key
        assert knob.reason.endswith("."), key


def test_every_number_has_a_unit_that_fits_its_name() -> None:
    for key, knob in knobs().items():
        if knob.kind in (int, float):
            assert knob.unit, key
        for ending, unit in (("_s", "s"), ("_bytes", "bytes"), ("_tokens", "tokens")):
            assert key.endswith(ending) == (knob.unit == unit), key


def test_the_relays_limits_are_the_settings_of_the_same_names() -> None:
    settings = Settings()
    for limits in (settings.front_limits(), settings.upstream_limits()):
        for each in fields(limits):
            section = settings.proxy if each.name == "buffered_limit_bytes" else settings.relay
            assert getattr(limits, each.name) == getattr(section, each.name), each.name


def test_the_cores_limits_are_the_settings_with_their_strategies() -> None:
    settings = Settings(strategies=(ModelStrategy("qwen3:30b", "round-robin"),))
    limits = settings.limits()
    assert limits.strategies == ((ModelName("qwen3:30b"), "round-robin"),)
    assert limits.prefix_length_chars == settings.prefix.length_chars
    assert limits.estimates_limit == settings.estimates.replicas_limit
    assert limits.priority_bound_s == settings.queue.priority_bound_s


def test_no_two_knobs_share_a_variable() -> None:
    assert len({knob.variable for knob in knobs().values()}) == len(knobs())
