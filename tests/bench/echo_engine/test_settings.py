from __future__ import annotations

import math

import pytest

from pair.bench.echo_engine.faults import Cut, Reset
from pair.bench.echo_engine.settings import (
    EchoModel,
    EchoSettings,
    parse_listen,
    parse_model,
    settings_from_text,
)
from pair.errors import SettingsError


def test_texts_become_settings() -> None:
    read = settings_from_text(
        {
            "listen": "[::1]:0",
            "slots": "3",
            "decode-rate-tokens-per-s": "inf",
            "load_time_s": "1.5",
            "persona": "ollama",
            "models": ["a,alias=b,alias=c", "d"],
            "faults": ["reset,first=1", "cut"],
        }
    )
    assert read == EchoSettings(
        listen="[::1]:0",
        slots=3,
        decode_rate_tokens_per_s=math.inf,
        load_time_s=1.5,
        persona="ollama",
        models=(EchoModel("a", ("b", "c")), EchoModel("d")),
        faults=(Reset(first=1), Cut()),
    )
    assert settings_from_text({}) == EchoSettings()
    assert settings_from_text({"models": "only"}).models == (EchoModel("only"),)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"slotz": "1"}, "did you mean slots"),
        ({"zzz": "1"}, "no setting 'zzz'"),
        ({"slots": "many"}, "slots cannot be 'many'"),
        ({"slots": "0"}, "slots must be at least 1"),
        ({"decode-rate-tokens-per-s": "0"}, "above 0"),
        ({"prefill-rate-tokens-per-s": "nan"}, "above 0"),
        ({"load-time-s": "-1"}, "from 0 up"),
        ({"queue_limit": "-1"}, "from 0 up"),
        ({"persona": "gpt"}, "llamacpp or ollama"),
        ({"listen": "8080"}, "ADDRESS:PORT"),
        ({"models": []}, "at least one model"),
        ({"models": "a,nick=b"}, "alias"),
        ({"faults": "boom"}, "boom"),
    ],
)
def test_what_cannot_be_is_said_with_its_name(
    options: dict[str, str | list[str]], says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        settings_from_text(options)


def test_addresses() -> None:
    assert parse_listen("127.0.0.1:8080") == ("127.0.0.1", 8080)
    assert parse_listen("[::1]:0") == ("::1", 0)
    for wrong in ("", ":1", "a:b", "a:70000", "a:-1"):
        with pytest.raises(SettingsError):
            parse_listen(wrong)


def test_models() -> None:
    assert parse_model("echo:7b") == EchoModel("echo:7b")
    assert parse_model("x,alias=y") == EchoModel("x", ("y",))
    with pytest.raises(SettingsError):
        parse_model(",alias=y")
