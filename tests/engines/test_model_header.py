from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.engines.model_file import small_model_path
from pair.engines.model_header import context_bytes_per_token


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def number(name: str, value: int) -> bytes:
    return text(name) + struct.pack("<II", 4, value)


def gguf(*fields: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields)


LLAMA = (
    text("general.architecture") + struct.pack("<I", 8) + text("llama"),
    text("general.tags") + struct.pack("<IIQ", 9, 8, 2) + text("one") + text("two"),
    number("llama.block_count", 30),
    number("llama.embedding_length", 576),
    text("llama.rope.freq_base") + struct.pack("<If", 6, 1e5),
    number("llama.attention.head_count", 9),
    number("llama.attention.head_count_kv", 3),
)


def cost(folder: Path, content: bytes) -> int | None:
    file = folder / "model.gguf"
    file.write_bytes(content)
    return context_bytes_per_token(file)


def test_a_token_costs_a_key_and_a_value_a_head_and_layer(tmp_path: Path) -> None:
    assert cost(tmp_path, gguf(*LLAMA)) == 30 * 3 * (64 + 64) * 2
    longer = number("llama.attention.key_length", 128)
    assert cost(tmp_path, gguf(*LLAMA, longer)) == 30 * 3 * (128 + 64) * 2
    alike = LLAMA[:-1]
    assert cost(tmp_path, gguf(*alike)) == 30 * 9 * (64 + 64) * 2, "each head has its own"


def test_layers_may_differ(tmp_path: Path) -> None:
    heads = struct.pack("<IIQ", 9, 5, 30) + struct.pack("<30i", *([1, 3] * 15))
    differing = text("llama.attention.head_count_kv") + heads
    assert cost(tmp_path, gguf(*LLAMA[:-1], differing)) == 60 * (64 + 64) * 2


def test_the_tokenizer_is_not_read(tmp_path: Path) -> None:
    tokens = text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 10**9)
    assert cost(tmp_path, gguf(*LLAMA, tokens)) == 30 * 3 * (64 + 64) * 2


def test_a_file_that_does_not_tell(tmp_path: Path) -> None:
    assert cost(tmp_path, gguf()) is None
    assert cost(tmp_path, gguf(*LLAMA[:3])) is None
    assert cost(tmp_path, gguf(*LLAMA)[:-2]) is None
    assert cost(tmp_path, b"<html>") is None
    assert context_bytes_per_token(tmp_path / "missing") is None


@given(st.binary(max_size=300), st.integers(0, 300))
def test_whatever_is_in_it_is_never_an_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    whole = gguf(*LLAMA)
    found = cost(tmp_path_factory.mktemp("noise"), whole[:at] + noise + whole[at + len(noise) :])
    assert found is None or found > 0


@pytest.mark.engine
def test_the_small_model_costs_what_its_card_says() -> None:
    """SmolLM2-135M: 30 layers, 3 shared heads of 64."""
    assert context_bytes_per_token(small_model_path()) == 23_040
