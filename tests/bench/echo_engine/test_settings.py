from __future__ import annotations

import math
from typing import Any

import pytest

from pair.bench.echo_engine.settings import (
    EchoModel,
    EchoSettings,
    parse_listen,
    parse_model,
)
from pair.errors import SettingsError


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"slots": 0}, "slots must be at least 1"),
        ({"answer_tokens": 0}, "answer_tokens must be at least 1"),
        ({"decode_rate_tokens_per_s": 0.0}, "above 0"),
        ({"prefill_rate_tokens_per_s": math.nan}, "above 0"),
        ({"load_time_s": -1.0}, "from 0 up"),
        ({"load_time_s": math.inf}, "from 0 up"),
        ({"queue_limit": -1}, "from 0 up"),
        ({"listen": "8080"}, "ADDRESS:PORT"),
        ({"models": ()}, "at least one model"),
    ],
)
def test_what_no_engine_could_be_is_said_with_its_name(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        EchoSettings(**changes)


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
