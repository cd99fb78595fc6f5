"""Keys from variables and files, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pair.errors import SettingsError
from pair.relay.credentials import KEY_LIMIT_BYTES, Credential

VARIABLE = "TEST_CREDENTIAL"


def test_a_variable_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " sk-1 ")
    credential = Credential(variable=VARIABLE)
    monkeypatch.delenv(VARIABLE)
    assert dict(credential) == {"Authorization": "Bearer sk-1"}
    assert "sk-1" not in f"{credential!r} {credential}"
    with pytest.raises(KeyError):
        credential["x-api-key"]


@pytest.mark.parametrize(
    "text", ["", " \n", "two\nlines", "schl\u00fcssel", "a\0b", "x" * (KEY_LIMIT_BYTES + 1)]
)
def test_what_is_no_key_is_refused_and_never_quoted(text: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(SettingsError, match="holds no key") as told:
        Credential(file=str(file))
    assert str(file) in str(told.value)
    assert not text.strip() or text not in str(told.value)


def test_a_file_that_is_half_written_leaves_the_last_good_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-1")
    credential = Credential(file=str(file))
    file.write_text("")
    assert credential["Authorization"] == "Bearer sk-1"
    file.write_text("sk-22\n")
    assert credential["Authorization"] == "Bearer sk-22"


def test_a_variable_or_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="TEST_NOT_SET"):
        Credential(variable="TEST_NOT_SET")
    with pytest.raises(SettingsError, match="none-such"):
        Credential(file=str(tmp_path / "none-such"))
