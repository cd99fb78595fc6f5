from __future__ import annotations

from pair.terminal.job_report import calls_table, details, headline, job_report
from tests.terminal.samples import call, job, text_of, words

CALLS = (
    call("a", 0, 0, 0.5, 2),
    call("b", 0, 0, 0.7, 2),
    call("a", 0, 2, 2.5, 4, outcome="failed", detail="the connection broke", attempts=2),
    call(None, 0, None, None, None),
)


def test_the_headline_tells_speed_up_limit_and_the_fastest_node() -> None:
    *lines, tokens = headline(job(*CALLS, failed=1)).plain.splitlines()
    assert lines == [
        "job team-1 · done · tiny",
        "4 calls on 2 nodes in 4.00 s · 1 failed",
        "1.90x as fast as a alone (7.60 s, measured)",
        "limit 2.00x: 2 waves on 2 slots · efficiency 95%",
        "fastest node alone: b (7.40 s, predicted)",
    ]
    counted, waits = tokens.split(" · ", maxsplit=1)
    assert counted == "tokens 720 in, 40 of them cached (6%), 256 out (64.0 a second)"
    assert waits == "TTFT p50 0.70 s, at most 2.50 s · longest wait 2.00 s"


def test_what_is_not_known_is_left_out_or_shown_as_unknown() -> None:
    known_later = ("waves", "limit", "achieved", "efficiency", "baseline", "baseline_s")
    unknown = dict.fromkeys(
        (*known_later, "fastest_alone_s", "makespan_s", "output_tokens", "prompt_tokens")
    )
    text = headline(
        job(**unknown, named=False, state="running", note="no call has been answered yet")
    ).plain
    assert text.splitlines() == [
        "job team-1 (found by time) · running · tiny",
        "0 calls on 2 nodes in –",
        "tokens – in, 40 of them cached, – out · TTFT p50 – · longest wait –",
        "no call has been answered yet",
    ]


def test_each_call_says_where_it_ran_and_how_it_ended() -> None:
    _, _, first, _, third, fourth = words(text_of(calls_table(job(*CALLS)), width=200))
    assert " ".join(first) == "1 a 0.00 s 0.50 s 2.00 s 180 10 64 answered shortest queue"
    assert " ".join(third).endswith("failed (2 attempts) shortest queue")
    assert fourth[:2] == ["4", "–"]
    assert "running" in fourth


def test_what_went_wrong_stands_below_in_full() -> None:
    assert details(job(*CALLS)).plain == "call 3: the connection broke"
    assert details(job()).plain == ""


def test_a_narrow_terminal_cuts_the_reason_and_nothing_else() -> None:
    calls = [call("gaming-pc", 0, 0, 0.5, 2, reason="the shortest queue of three nodes")]
    text = text_of(calls_table(job(*calls)), width=80)
    assert words(text)[2][-3:] == ["answered", "the", "short…"]
    assert "gaming-pc" in text


def test_the_whole_report_holds_every_part() -> None:
    text = text_of(job_report(job(*CALLS, id="\x1b[2J[red]x")))
    assert "\x1b" not in text
    for part in ("[red]x", "as fast as", "service time p50", "until the first", "outcome"):
        assert part in text
