"""The text that a prompt is put together to."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from pair.wire.prompt_text import MEDIA_CHARS, PIECES_LIMIT, REWRITTEN_LIMIT_BYTES, Fields, render


def test_parts_of_a_text_read_like_the_text() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert _message(parts) == _message("one two")
    assert "one two" in _message(parts)


def test_a_text_that_stands_for_a_document_is_text_and_a_picture_is_not() -> None:
    document = {"type": "document", "source": {"type": "text", "data": "what it says"}}
    assert "what it says" in _message([document])
    picture = {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo="}}
    assert "iVBOR" not in _message([picture])
    assert len(_message([picture])) >= MEDIA_CHARS


def test_what_another_dialect_means_by_a_field_is_no_text() -> None:
    plain = render(Fields(input="hello"))
    assert render(Fields(input="hello", text={"format": {"type": "json_schema"}})) == plain
    assert render(Fields(input="hello", text="no field of this dialect")) == plain
    assert render(Fields(text="hello")) == "hello"


def test_the_pieces_are_bounded() -> None:
    many = [{"role": "user", "content": "a"}] * PIECES_LIMIT
    assert 0 < len(render(Fields(messages=many))) < 20 * PIECES_LIMIT
    assert len(render(Fields(messages=many))) == len(render(Fields(messages=many * 2)))


def test_no_tools_and_an_empty_list_of_them_read_the_same() -> None:
    texts = {render(Fields(tools=Raw(tools), prompt="x")) for tools in (b"null", b"[]")}
    assert texts == {render(Fields(prompt="x"))}


def test_tools_are_as_the_client_wrote_them() -> None:
    assert '{"b": 1,  "a": 2}' in render(Fields(tools=Raw(b'[{"b": 1,  "a": 2}]')))
    marked = Raw(b'[{"b": 1,  "a": 2, "cache_control": {}}]')
    assert '[{"b":1,"a":2}]' in render(Fields(tools=marked))


def _message(content: Any) -> str:
    return render(Fields(messages=[{"role": "user", "content": content}]))


def test_marks_are_left_out_of_tools_up_to_a_length() -> None:
    def tools(chars: int, **mark: int) -> Raw:
        return Raw(msgspec.json.encode([{"name": "x" * chars, **mark}]))

    assert render(Fields(tools=tools(9, cache_control=1))) == render(Fields(tools=tools(9)))
    large = tools(REWRITTEN_LIMIT_BYTES, cache_control=1)
    assert bytes(large).decode() in render(Fields(tools=large))
