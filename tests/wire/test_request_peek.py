"""Finding model and stream in a request, whatever a client sends."""

from __future__ import annotations

import gc
import gzip
import json
import time
import zlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.errors import RequestFault
from pair.wire.dialects import Dialect
from pair.wire.request_peek import (
    MODEL_NAME_LIMIT_CHARS,
    TOLERANT_LIMIT_BYTES,
    UNPACKED_LIMIT_BYTES,
    Peek,
    peek,
)

CHAT = b"/v1/chat/completions"
LOOK_LIMIT_S = 0.06


def look(
    body: bytes | list[bytes] | dict[str, Any] | None = None,
    target: bytes = CHAT,
    method: bytes = b"POST",
    kind: bytes | None = b"application/json",
    encoding: bytes | None = None,
) -> Peek:
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    pieces = body if isinstance(body, list) else [body] if body else []
    return peek(method, target, pieces, content_type=kind, content_encoding=encoding)


def fault_of(body: bytes | dict[str, Any], **keywords: Any) -> RequestFault:
    with pytest.raises(RequestFault) as caught:
        look(body, **keywords)
    return caught.value


def test_a_chat_request_tells_everything() -> None:
    seen = look(
        {
            "messages": [{"role": "user", "content": "Hello"}],
            "model": "llama3",
            "stream": True,
            "max_tokens": 64,
        }
    )
    assert seen == Peek(
        path="/v1/chat/completions",
        dialect=Dialect.OPENAI,
        light=False,
        model=seen.model,
        streamed=True,
    )
    assert seen.model == "llama3"


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"model":"no"}],"tools":[{"function":{"model":"no"}}],"model":"yes"}',
        b'{"x":"\\"model\\":\\"no\\"","model":"yes"}',
        b'{"model":"no","model":"yes"}',
        b'{"\\u006dodel":"y\\u0065s"}',
        b' \r\n\t{ "model" :\t"yes" } \n',
        b'\xef\xbb\xbf{"model":"yes"}',
        b'{"x":"\xff\xfe","model":"yes"}',
        b'{"x":"\\ud800","model":"yes"}',
        b'{"x":NaN,"y":-Infinity,"model":"yes"}',
        b'{"x":"a\nb","model":"yes"}',
        b'{"x":1e999999,"model":"yes"}',
        b'{"messages":null,"options":7,"model":"yes"}',
        b'{"messages":[null,"x",{"content":[null]}],"model":"yes"}',
        b'{"x":' + b"[" * 500 + b"]" * 500 + b',"model":"yes"}',
    ],
)
def test_the_top_level_model_is_found(body: bytes) -> None:
    assert look(body).model == "yes"


def test_a_body_in_pieces_is_one_body() -> None:
    body = b'{"messages":[],"model":"llama3","stream":true}'
    for cut in range(1, len(body)):
        seen = look([body[:cut], body[cut:]])
        assert (seen.model, seen.streamed) == ("llama3", True)


def test_a_model_behind_ten_megabytes_of_messages_is_found() -> None:
    turns = [{"role": "user", "content": 'She said "hi" and left.\n' * 400}] * 1000
    seen = look({"messages": turns, "model": "llama3"})
    assert seen.model == "llama3"


@given(
    st.dictionaries(
        st.text(max_size=8) | st.sampled_from(["messages", "tools", "input", "options", "prompt"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["content", "text", "model", "stream", "arguments"]), inner
                )
            ),
            max_leaves=12,
        ),
    ),
    st.text(min_size=1, max_size=40).filter(str.isprintable),
    st.booleans(),
    st.booleans(),
)
def test_any_other_fields_never_hide_the_model(
    others: dict[str, Any], model: str, stream: bool, escaped: bool
) -> None:
    body = json.dumps({**others, "model": model, "stream": stream}, ensure_ascii=escaped)
    seen = look(body.encode("utf-8", "surrogatepass"))
    assert (seen.model, seen.streamed) == (model, stream)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_peek_or_the_clients_fault(body: bytes) -> None:
    try:
        outcome = look(body).path
    except RequestFault as fault:
        outcome = fault.code
    assert outcome in ("/v1/chat/completions", "invalid_json", "invalid_model")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"model": "a",', "column 15"),
        (b'{\n"model": a}', "line 2, column 10"),
        (b"[1]", "object"),
        (b"7", "object"),
        (b'[NaN, "x"]', "object"),
        (b"", "empty"),
        (b"  ", "empty"),
        (b"model=a", "line 1, column 1"),
        (b"[" * 100_000, "object"),
        (b'{"a":' * 20_000, "nested too deeply"),
        (b'{"x":NaN,"y":' + b"1" * 5000 + b"}", "number"),
        (b'{"x":"' + b"a" * TOLERANT_LIMIT_BYTES, "truncated"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_the_clients_fault(body: bytes, words: str) -> None:
    fault = fault_of(body)
    assert (fault.status, fault.code) == (400, "invalid_json")
    assert words in str(fault)


@pytest.mark.parametrize(
    "model", [7, ["a"], {"a": 1}, True, "a\nb", "\ud800", "x" * (MODEL_NAME_LIMIT_CHARS + 1)]
)
def test_a_model_that_cannot_be_a_name_is_the_clients_fault(model: object) -> None:
    fault = fault_of({"model": model})
    assert (fault.status, fault.code, fault.param) == (400, "invalid_model", "model")


@pytest.mark.parametrize("body", [{}, {"model": None}, {"model": ""}, {"name": "a"}])
def test_a_body_without_a_model_names_none(body: dict[str, Any]) -> None:
    assert look(body).model is None


def test_ollama_takes_a_name_for_a_model_and_streams_unless_told() -> None:
    named = look({"name": "llama3:8b"}, target=b"/api/show")
    assert (named.dialect, named.light, named.model) == (Dialect.OLLAMA, True, "llama3:8b")
    assert look({"model": "a"}, target=b"/api/generate").streamed
    assert look({"model": "a"}, target=b"/api/chat").streamed
    assert not look({"model": "a", "stream": False}, target=b"/api/chat").streamed
    assert not look({"model": "a"}, target=b"/api/embed").streamed
    assert not look({"model": "a"}).streamed


def test_the_path_beats_the_body_and_the_body_beats_the_query() -> None:
    in_path = look({"model": "b"}, target=b"/v1/models/a%2Fb?model=c", method=b"DELETE")
    assert in_path.model == "a/b"
    assert look({"model": "b"}, target=CHAT + b"?model=c").model == "b"
    assert look({}, target=CHAT + b"?model=c").model == "c"


@pytest.mark.parametrize("body", [b"", b"not json", b'{"model":7'])
def test_a_light_request_needs_no_body_that_can_be_read(body: bytes) -> None:
    seen = look(body, target=b"/slots/0?action=save")
    assert (seen.light, seen.model) == (True, None)
    packed = look(body, target=b"/tokenize", encoding=b"zstd")
    assert (packed.light, packed.model) == (True, None)


def test_a_get_needs_no_body() -> None:
    assert look(target=b"/v1/models", method=b"GET", kind=None) == Peek(
        "/v1/models", Dialect.OPENAI, light=True, model=None
    )


def test_sound_as_a_body_is_not_read() -> None:
    seen = look(b"\x00\x01", target=b"/v1/audio/x?model=whisper", kind=b"audio/wav")
    assert (seen.model, seen.light) == ("whisper", False)


def test_some_say_octet_stream_of_json() -> None:
    kind = b"application/octet-stream"
    assert look(b'{"model":"a"}', kind=kind).model == "a"
    assert look(b"\x00\x01", target=CHAT + b"?model=b", kind=kind).model == "b"
    assert fault_of(b"\x00\x01", kind=kind).code == "invalid_json"


def test_a_form_names_its_model() -> None:
    body = (
        b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        b'\x00\xff\r\n--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1'
        b"\r\n--xyz--\r\n"
    )
    kind = b"multipart/form-data; boundary=xyz"
    assert look(body, target=b"/v1/audio/transcriptions", kind=kind).model == "whisper-1"
    no_form = look(b"", target=b"/v1/audio/transcriptions?model=b", kind=kind)
    assert no_form.model == "b"


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [(b"gzip", gzip.compress), (b"X-GZIP", gzip.compress), (b"deflate", zlib.compress)],
)
def test_a_compressed_body_is_read_through(encoding: bytes, pack: Any) -> None:
    assert look(pack(b'{"model":"llama3"}'), encoding=encoding).model == "llama3"


def test_a_compressed_body_that_cannot_be_read_is_the_clients_fault() -> None:
    assert fault_of(b"x" * 50, encoding=b"gzip").code == "invalid_encoding"
    assert fault_of(b"x", encoding=b"zstd").status == 415
    assert look(b"x", encoding=b"zstd", target=CHAT + b"?model=a").model == "a"


def test_what_is_too_large_to_look_into_is_refused_with_a_way_out() -> None:
    bomb = zlib.compress(b" " * (UNPACKED_LIMIT_BYTES + 1), 1)
    fault = fault_of(bomb, encoding=b"deflate")
    assert fault.status == 413
    assert "send it uncompressed, or name the model with ?model=NAME" in str(fault)
    assert look(bomb, encoding=b"deflate", target=CHAT + b"?model=a").model == "a"
    torn = b'{"model":"m","x":"\\ud800' + b"a" * TOLERANT_LIMIT_BYTES + b'"}'
    fault = fault_of(torn)
    assert (fault.status, fault.code) == (400, "invalid_json")
    assert "name the model with ?model=NAME" in str(fault)
    assert look(torn, target=CHAT + b"?model=a").model == "a"


def dense(size_bytes: int) -> bytes:
    """The worst kind of JSON for its size: a value for every three bytes."""
    return b'{"x":[' + b"[]," * (size_bytes // 3) + b'0],"model":"m"}'


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b'{"messages":["' + b"She said: hi. " * 750_000 + b'"],"model":"m"}', None),
        (zlib.compress(dense(UNPACKED_LIMIT_BYTES - 64)), b"deflate"),
        (zlib.compress(b" " * UNPACKED_LIMIT_BYTES), b"deflate"),
        (b'{"y":NaN,' + dense(TOLERANT_LIMIT_BYTES - 64)[1:], None),
    ],
    ids=["10 MiB of text", "packed and dense", "packed spaces", "tolerant and dense"],
)
def test_no_look_holds_up_the_loop(body: bytes, encoding: bytes | None) -> None:
    """About 20 ms at most, where this was written; the bound leaves room for slower machines and
    none for a look that builds what it does not need (40 to 800 ms there).
    """

    def cost_s() -> float:
        start_s = time.process_time()
        with suppress(RequestFault):
            look(body, encoding=encoding)
        return time.process_time() - start_s

    gc.freeze()  # what the tests before this one left is not a proxy's heap
    try:
        assert min(cost_s() for _ in range(5)) < LOOK_LIMIT_S
    finally:
        gc.unfreeze()
