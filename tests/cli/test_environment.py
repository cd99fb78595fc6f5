from __future__ import annotations

from pathlib import Path

import pytest

from pair.cli.config import Given
from pair.cli.environment import own_config, own_folders
from pair.errors import SettingsError


def test_this_processs_environment_decides(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_folders().config_file == home / "config.toml"
    monkeypatch.setenv("PAIR_QUEUE_LIMIT", "7")
    assert own_config({}).settings.queue.limit == 7
    assert own_config({"queue.limit": Given(8, "--limit")}).settings.queue.limit == 8


def test_only_a_named_file_must_exist(tmp_path: Path) -> None:
    assert own_config({}).file == own_folders().config_file
    with pytest.raises(SettingsError, match="there is no file"):
        own_config({}, tmp_path / "none.toml")
