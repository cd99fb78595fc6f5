"""The `x-pair-*` headers, from strangers and for strangers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.names import EngineName, JobId, ModelName, Priority
from pair.errors import RequestFault
from pair.wire.headers import (
    NAME_LIMIT_CHARS,
    REASON_LIMIT_CHARS,
    Wishes,
    answer_headers,
    choice_headers,
    header_text,
    read_choice,
    read_from,
    read_request_id,
    read_wishes,
)


def nothing(_: bytes) -> None:
    return None


def test_a_client_may_wish_for_nothing() -> None:
    assert read_wishes(nothing) == Wishes(None, None, Priority.DEFAULT, None)


def test_a_client_may_wish_for_everything() -> None:
    headers = {
        b"x-pair-job": b" team-1 ",
        b"x-pair-session": "Küche".encode(),
        b"x-pair-priority": b"Bulk",
        b"x-pair-node": b"gaming-pc",
    }
    assert read_wishes(headers.get) == Wishes(JobId("team-1"), "Küche", Priority.BULK, "gaming-pc")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-pair-job", b""),
        (b"x-pair-job", b"a\tb"),
        (b"x-pair-job", b"x" * (NAME_LIMIT_CHARS + 1)),
        (b"x-pair-session", b"a\x00"),
        (b"x-pair-node", b" "),
        (b"x-pair-priority", b"urgent"),
    ],
)
def test_a_wish_that_is_no_name_is_the_clients_fault(name: bytes, value: bytes) -> None:
    with pytest.raises(RequestFault) as caught:
        read_wishes({name: value}.get)
    assert caught.value.status == 400
    assert caught.value.code == "invalid_header"
    assert caught.value.param == name.decode()
    assert name.decode() in str(caught.value)


def test_a_clients_request_id_is_taken_if_it_is_usable() -> None:
    assert read_request_id({b"x-request-id": b"abc"}.get) == "abc"
    assert read_request_id({b"x-request-id": b"a\x01"}.get) is None
    assert read_request_id(nothing) is None


@given(
    st.text(min_size=1, max_size=30).filter(str.isprintable),
    st.text(min_size=1, max_size=30).filter(str.isprintable),
)
def test_a_proxys_choice_comes_back_as_it_was(engine: str, model: str) -> None:
    headers = choice_headers(EngineName(engine), ModelName(model))
    assert all(value.isascii() and value.strip() == value for _, value in headers)
    assert read_choice(dict(headers).get) == (engine, model)


def test_a_usual_name_stays_readable() -> None:
    headers = dict(choice_headers(EngineName("ollama:11434"), ModelName("Qwen/Qwen3-8B")))
    assert headers == {b"x-pair-engine": b"ollama:11434", b"x-pair-model": b"Qwen/Qwen3-8B"}


def test_a_proxy_may_leave_its_choice_open() -> None:
    assert choice_headers(EngineName("e"), None) == ((b"x-pair-engine", b"e"),)
    assert read_choice(nothing) == (None, None)
    assert read_choice({b"x-pair-engine": b"e"}.get) == ("e", None)


def test_an_answer_says_who_gave_it_and_why() -> None:
    headers = answer_headers(
        node="n1", attempts=2, queued_s=0.0126, reason="free", job=JobId("j"), request_id="r"
    )
    assert dict(headers) == {
        b"x-pair-node": b"n1",
        b"x-pair-attempts": b"2",
        b"x-pair-queue-ms": b"13",
        b"x-pair-reason": b"free",
        b"x-request-id": b"r",
        b"x-pair-job": b"j",
    }
    without = answer_headers(node="n1", attempts=1, queued_s=0, reason="", job=None, request_id="r")
    assert b"x-pair-job" not in dict(without)


@given(st.text(max_size=2 * REASON_LIMIT_CHARS))
def test_any_text_becomes_one_header_line(text: str) -> None:
    value = header_text(text)
    assert len(value) <= REASON_LIMIT_CHARS
    assert value == value.strip()
    assert not set(value) & {*range(0x20), *range(0x7F, 0xA0)}


def test_latin_text_keeps_its_letters() -> None:
    assert header_text("Küche → Büro\r\nx") == "Küche ? Büro  x".encode("latin-1")


def test_the_mark_of_a_proxy_is_bounded() -> None:
    assert read_from(lambda name: b"5f0c" * 100 if name == b"x-pair-from" else None) == "5f0c" * 8
    assert read_from(lambda name: b"") is None
    assert read_from(lambda name: None) is None
