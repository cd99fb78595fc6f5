from __future__ import annotations

import pytest

from pair.terminal.figures import count, percent, plain, rate, ratio, seconds, several


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.00 s"),
        (0.214, "0.21 s"),
        (9.996, "10.0 s"),
        (99.96, "1:40 min"),
        (125.0, "2:05 min"),
        (3599.9, "1:00 h"),
        (7500.0, "2:05 h"),
    ],
)
def test_a_duration_keeps_the_precision_that_means_something(
    value: float | None, text: str
) -> None:
    assert seconds(value) == text


def test_ratios_shares_and_counts() -> None:
    assert (ratio(2.434), ratio(None)) == ("2.43x", "–")
    assert (percent(0.974), percent(None)) == ("97%", "–")
    assert (count(12345), count(None)) == ("12,345", "–")
    assert (several(1, "node"), several(2, "node"), several(0, "reply", "replies")) == (
        "1 node",
        "2 nodes",
        "0 replies",
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (1250.4, "1,250/s"), (99.96, "100/s"), (46.94, "46.9/s"), (0.0512, "0.0512/s")],
)
def test_a_rate_keeps_three_digits(value: float | None, text: str) -> None:
    assert rate(value) == text


def test_a_strangers_name_cannot_command_the_terminal() -> None:
    assert plain("\x1b[2Jattic\r\n\x07\u202e") == "�[2Jattic����"
    assert plain("Küche 🦙") == "Küche 🦙"
    assert len(plain("x" * 10_000)) == 300
