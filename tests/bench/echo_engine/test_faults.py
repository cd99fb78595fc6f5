from __future__ import annotations

import base64
import json

import pytest

from pair.bench.echo_engine.faults import (
    OLLAMA_BUSY,
    AnyFault,
    Cut,
    FaultBook,
    Nonsense,
    Piece,
    Reset,
    Script,
    SlowHead,
    Stall,
    Status,
    header_text,
    kind_of,
    parse_fault,
    parse_faults,
)
from pair.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("reset", Reset()),
        ("reset,first=2", Reset(first=2)),
        ("cut,after_events=3,how=mid_chunk", Cut(after_events=3, how="mid_chunk")),
        ("stall,after_events=2,for_s=0.5", Stall(after_events=2, for_s=0.5)),
        ("slow_head,for_s=2,path=/v1/*|/api/*", SlowHead(for_s=2.0, path="/v1/*|/api/*")),
        ("502", Status(status=502)),
        ("busy,every=3", Status(status=503, message=OLLAMA_BUSY, every=3)),
        ("rate_limited", Status(status=429, retry_after_s=1.0)),
        ("model_not_found", Status(status=404)),
        ('{"kind": "nonsense", "body": "[1,"}', Nonsense(body="[1,")),
        (
            json.dumps(
                {
                    "kind": "script",
                    "framing": "length",
                    "pieces": [{"at_s": 0.5, "content": base64.b64encode(b"\xff\n").decode()}],
                }
            ),
            Script(framing="length", pieces=(Piece(at_s=0.5, content=b"\xff\n"),)),
        ),
    ],
)
def test_both_forms_are_read(text: str, fault: AnyFault) -> None:
    assert parse_fault(text) == fault
    assert parse_fault(header_text(fault)) == fault


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("explode", "explode.*; the kinds are black_hole, busy, "),
        ("reset,frist=1", "frist"),
        ("reset,after_events=1", "after_events"),
        ("cut,how=gently", "gently"),
        ("stall,for_s=long", "for_s"),
        ("{", "'{'"),
        ("", "''"),
    ],
)
def test_what_is_no_fault_is_named(text: str, names: str) -> None:
    with pytest.raises(SettingsError, match=names):
        parse_fault(text)


def test_a_list_may_mix_both_forms() -> None:
    assert parse_faults(b'["reset,first=1", {"kind": "cut"}]') == [Reset(first=1), Cut()]
    for wrong in (b"{}", b"[1]", b"[", b'["nope"]'):
        with pytest.raises(SettingsError):
            parse_faults(wrong)


def strikes(fault: AnyFault, requests: int) -> list[int]:
    """The numbers, from 1, of the requests that are struck."""
    book = FaultBook([fault])
    picks = [book.pick("/v1/x", None, for_work=True, reused=False) for _ in range(requests)]
    return [number for number, pick in enumerate(picks, 1) if pick is not None]


def test_limits_of_count() -> None:
    assert strikes(Reset(), 3) == [1, 2, 3]
    assert strikes(Reset(first=2), 4) == [1, 2]
    assert strikes(Reset(skip=2), 4) == [3, 4]
    assert strikes(Reset(skip=1, first=2), 5) == [2, 3]
    assert strikes(Reset(every=3), 7) == [3, 6]
    assert strikes(Reset(every=2, first=4), 9) == [2, 4]


def test_chance_is_reproducible() -> None:
    struck = strikes(Reset(probability=0.3, seed=5), 1000)
    assert struck == strikes(Reset(probability=0.3, seed=5), 1000)
    assert struck != strikes(Reset(probability=0.3, seed=6), 1000)
    assert 240 < len(struck) < 360


def test_only_matching_requests_are_struck() -> None:
    book = FaultBook([Nonsense(path="/v1/models|/api/*"), Reset(reused=True)])

    def kind(path: str, *, for_work: bool = False, reused: bool = False) -> str:
        fault = book.pick(path, None, for_work=for_work, reused=reused)
        return "" if fault is None else kind_of(fault)

    assert kind("/v1/models") == "nonsense"
    assert kind("/api/tags") == "nonsense"
    assert kind("/health") == ""
    assert kind("/v1/chat/completions", for_work=True) == ""
    assert kind("/v1/chat/completions", for_work=True, reused=True) == "reset"


def test_the_first_rule_that_strikes_is_applied_alone() -> None:
    book = FaultBook([Reset(first=1), Cut(first=1)])
    kinds = [book.pick("/v1/x", None, for_work=True, reused=False) for _ in range(3)]
    assert kinds == [Reset(first=1), Cut(first=1), None]


def test_a_header_decides_alone_and_counts_by_its_text() -> None:
    book = FaultBook([Cut()])
    picks = [book.pick("/any", "reset,first=1", for_work=False, reused=False) for _ in range(2)]
    assert picks == [Reset(first=1), None]
    assert book.pick("/any", "500", for_work=False, reused=False) == Status(status=500)
    with pytest.raises(SettingsError):
        book.pick("/any", "nope", for_work=False, reused=False)


def test_headers_are_forgotten_beyond_a_bound() -> None:
    book = FaultBook([])
    once = "reset,first=1"
    assert book.pick("/any", once, for_work=False, reused=False) is not None
    for number in range(300):
        book.pick("/any", f"reset,skip={number}", for_work=False, reused=False)
    assert book.pick("/any", once, for_work=False, reused=False) is not None


def test_faults_are_replaced_at_run_time() -> None:
    book = FaultBook([Reset(first=1)])
    assert book.pick("/v1/x", None, for_work=True, reused=False) is not None
    book.set("500,first=1", Cut())
    picks = [book.pick("/v1/x", None, for_work=True, reused=False) for _ in range(2)]
    assert picks == [Status(status=500, first=1), Cut()]
    book.clear()
    assert book.pick("/v1/x", None, for_work=True, reused=False) is None
