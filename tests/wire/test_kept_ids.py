"""Ids of what engines keep, in requests and in answers."""

from __future__ import annotations

import json

import pytest

from pair.wire.kept_ids import (
    ID_LIMIT_CHARS,
    LOOK_LIMIT_BYTES,
    IdFinder,
    id_in_path,
    makes_ids,
    usable_id,
)
from pair.wire.request_peek import peek


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/responses/resp_1", "resp_1"),
        ("/v1/responses/resp_1/cancel", "resp_1"),
        ("/v1/responses/resp%3A1/input_items", "resp:1"),
        ("/v1/conversations/conv_1/items/msg_1", "conv_1"),
        ("/v1/vector_stores/vs_1/search", "vs_1"),
        ("/v1/responses/compact", None),
        ("/v1/responses/input_tokens", None),
        ("/v1/responses", None),
        ("/v1/files/", None),
        ("/v1/files/" + "x" * (ID_LIMIT_CHARS + 1), None),
        ("/v1/models/m", None),
        ("/api/show", None),
    ],
)
def test_the_id_in_a_path(path: str, name: str | None) -> None:
    assert id_in_path(path) == name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("conv_1", "conv_1"),
        ({"id": "conv_1"}, "conv_1"),
        ({"id": 1}, None),
        ({}, None),
        ("", None),
        ("x" * (ID_LIMIT_CHARS + 1), None),
        (["x"], None),
        (None, None),
    ],
)
def test_the_id_in_a_field(value: object, name: str | None) -> None:
    assert usable_id(value) == name


@pytest.mark.parametrize(
    ("method", "path", "makes"),
    [
        (b"POST", "/v1/responses", True),
        (b"POST", "/v1/conversations", True),
        (b"POST", "/v1/files", True),
        (b"POST", "/api/v1/chat", True),
        (b"POST", "/v1/vector_stores/vs_1/file_batches", True),
        (b"GET", "/v1/responses/resp_1", False),
        (b"POST", "/v1/chat/completions", False),
        (b"POST", "/api/chat", False),
    ],
)
def test_only_some_answers_tell_a_new_id(method: bytes, path: str, makes: bool) -> None:
    assert makes_ids(method, path) is makes


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("/v1/responses", ("conv_1",)),
        ("/v1/vector_stores/vs_1/files", ("vs_1", "conv_1")),
        ("/v1/chat/completions", ()),
        ("/api/chat", ()),
    ],
)
def test_an_id_in_a_body_counts_where_an_engine_keeps_something(
    path: str, ids: tuple[str, ...]
) -> None:
    body = b'{"model": "m", "conversation": "conv_1"}'
    seen = peek(b"POST", path.encode(), [body], content_type=None, content_encoding=None)
    assert seen.ids == ids


QUOTING = json.dumps({"text": 'say "id": "no"', "previous_response_id": "no", "id": "resp_1"})


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"resp_1","object":"response","output":[{"id":"msg_1"}]}',
        b'{"created_at":1,"id" : "resp_1"}',
        b'event: x\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n',
        b'{"output":[],"response_id":"resp_1"}',
        QUOTING.encode(),
    ],
)
def test_the_id_is_found_however_the_answer_is_cut(body: bytes) -> None:
    for cut in range(len(body) + 1):
        finder = IdFinder()
        finder.feed(body[:cut])
        if not finder.over:
            finder.feed(body[cut:])
        assert (finder.found, finder.over) == ("resp_1", True)


def test_the_id_is_found_behind_many_small_pieces() -> None:
    finder = IdFinder()
    for _ in range(100):
        finder.feed(b'data: {"type":"message.delta","content":"x"}\n\n')
    for byte in b'data: {"response_id":"resp_1"':
        finder.feed(bytes((byte,)))
    assert (finder.found, finder.over) == ("resp_1", True)


def test_an_id_that_the_request_named_is_not_the_new_one() -> None:
    finder = IdFinder(("conv_1",))
    finder.feed(b'{"conversation":{"id":"conv_1"},"id":"resp_1"}')
    assert finder.found == "resp_1"


def test_the_look_ends_without_an_id() -> None:
    finder = IdFinder()
    finder.feed(b"x" * (LOOK_LIMIT_BYTES - 1))
    assert not finder.over
    finder.feed(b'"id":"late"')
    assert (finder.found, finder.over) == (None, True)
