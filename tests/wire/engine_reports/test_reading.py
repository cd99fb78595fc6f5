from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.names import ModelName
from pair.errors import GarbledAnswer
from pair.wire.engine_reports import llamacpp, lmstudio, ollama, openai_list, sglang, vllm
from pair.wire.engine_reports.reading import (
    ALIASES_LIMIT,
    COUNT_LIMIT,
    MODELS_LIMIT,
    NAME_LIMIT_CHARS,
    SLOTS_LIMIT,
    EngineModel,
    amount,
    count,
    model_list,
    model_name,
    model_names,
    read_json,
    read_rows,
    slot_count,
)

READERS: dict[str, Callable[[bytes], object]] = {
    "openai": openai_list.read_openai_list,
    "owners": openai_list.owners,
    "listed names": openai_list.listed_names,
    "ollama": lambda body: ollama.read_tags(body, body),
    "lmstudio new": lambda body: lmstudio.read_new_list(body, None),
    "lmstudio old": lambda body: lmstudio.read_old_list(body, None),
    "llamacpp props": llamacpp.read_props,
    "llamacpp load": lambda body: llamacpp.read_load(body, body),
    "llamacpp loading": lambda body: llamacpp.is_loading(503, body),
    "vllm": vllm.read_load,
    "sglang settings": sglang.read_settings,
    "sglang load": lambda body: sglang.read_load(body, body),
}

WORDS = """
    data models id key name model aliases status value meta n_ctx root parent state error message
    loaded_instances config parallel context_length max_model_len total_slots is_processing loads
    default_generation_settings internal_states max_running_requests num_running_reqs
"""
FIELDS = st.sampled_from(WORDS.split())
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | FIELDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=25,
)


def fault_of(reader: str, body: bytes) -> str:
    """What is wrong with the body, "" if it can be read; anything else that is raised fails."""
    try:
        READERS[reader](body)
    except GarbledAnswer as fault:
        return str(fault)
    return ""


@pytest.mark.parametrize("reader", READERS)
@given(value=ANY_JSON)
def test_nonsense_in_json_is_read_or_is_garbled(reader: str, value: object) -> None:
    assert "\n" not in fault_of(reader, json.dumps(value).encode())


@pytest.mark.parametrize("reader", READERS)
@given(body=st.binary(max_size=80))
def test_nonsense_in_bytes_is_read_or_is_garbled(reader: str, body: bytes) -> None:
    assert "\n" not in fault_of(reader, body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"data": [',
        b'{"data": \xff}',
        b"[" * 100_000,
        b'{"data": [{"id": ' + b"[" * 100_000,
        b'"\xed\xa0\x80"',
    ],
)
def test_what_is_not_json_is_garbled(body: bytes) -> None:
    with pytest.raises(GarbledAnswer):
        openai_list.read_openai_list(body)


class _Row(msgspec.Struct):
    number: int


def test_a_row_that_is_none_costs_that_row_only() -> None:
    raws = read_json(b'[{"number": 1}, {"number": "x"}, 7, {"number": 2}]', list[msgspec.Raw])
    rows = [None if row is None else row.number for row in read_rows(raws, _Row)]
    assert rows == [1, None, None, 2]


@pytest.mark.parametrize(
    ("value", "counted", "amounted"),
    [
        (7, 7, 7),
        (4096.0, 4096, 4096),
        (0, None, 0),
        (-1, None, None),
        (0.5, None, None),
        (True, None, None),
        ("7", None, None),
        (None, None, None),
        (float("nan"), None, None),
        (float("inf"), None, None),
        (COUNT_LIMIT, COUNT_LIMIT, COUNT_LIMIT),
        (COUNT_LIMIT + 1, None, None),
        (10**400, None, None),
    ],
)
def test_only_sensible_numbers_count(
    value: object, counted: int | None, amounted: int | None
) -> None:
    assert count(value) == counted
    assert amount(value) == amounted


def test_slots_stay_within_what_a_report_takes() -> None:
    assert [slot_count(value) for value in (0, 1, 256, 10**6)] == [None, 1, 256, SLOTS_LIMIT]


@pytest.mark.parametrize(
    "name", ["", "a\r\nx-pair-node: b", "\x1b[2J", "x" * (NAME_LIMIT_CHARS + 1), "\ud800", 7, None]
)
def test_a_name_that_could_do_harm_is_none(name: object) -> None:
    assert model_name(name) is None


@pytest.mark.parametrize("name", ["qwen3:8b", "org/Model-7B@q4_k_m", "模型", "my model.gguf"])
def test_names_are_taken_as_they_are(name: str) -> None:
    assert model_name(name) == name


def test_aliases_are_those_names_in_a_list_that_can_be_used() -> None:
    assert model_names(["a", "", 7, None, "b"]) == {"a", "b"}
    assert model_names("ab") == frozenset()
    assert len(model_names([str(number) for number in range(1000)])) == ALIASES_LIMIT


def _model(name: str, *aliases: str) -> EngineModel:
    return EngineModel(ModelName(name), frozenset(ModelName(alias) for alias in aliases))


def test_a_name_belongs_to_the_model_that_has_it_as_its_own() -> None:
    models = model_list([_model("a", "b", "c"), _model("b"), _model("b", "d")]).models
    assert models == (_model("a", "c"), _model("b"))


def test_the_list_says_what_it_leaves_out() -> None:
    many = (_model(str(number)) for number in range(MODELS_LIMIT + 5))
    result = model_list([None, *many, None])
    assert len(result.models) == MODELS_LIMIT
    assert result.warnings == (
        "2 of the listed models cannot be read and are left out",
        f"only the first {MODELS_LIMIT} models are used, 5 are left out",
    )
