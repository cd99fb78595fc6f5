from __future__ import annotations

from pathlib import Path

import pytest

from pair.cli.config import Config, Given, load
from pair.errors import SettingsError
from pair.settings import FixedNode, ModelStrategy, Settings


def loaded(
    tmp_path: Path, text: str = "", environ: dict[str, str] | None = None, **flags: object
) -> Config:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    given = {key.replace("__", "."): Given(value, f"--{key}") for key, value in flags.items()}
    return load(given, environ=environ or {}, file=file, must_exist=True)


def test_without_any_layer_everything_has_its_default(tmp_path: Path) -> None:
    config = load({}, environ={}, file=tmp_path / "none.toml", must_exist=False)
    assert config.settings == Settings()
    assert config.places == {}


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    text = '[queue]\nlimit = 1\nwait_limit_s = 1\n[node]\nslots = 1\nname = "file"\n'
    environ = {"PAIR_QUEUE_LIMIT": "2", "PAIR_QUEUE_WAIT_LIMIT_S": "2", "PATH": "/bin"}
    config = loaded(tmp_path, text, environ, queue__limit=3, node__slots=None)
    settings = config.settings
    assert (settings.queue.limit, settings.queue.wait_limit_s) == (3, 2.0)
    assert (settings.node.slots, settings.node.name) == (1, "file")
    assert settings.proxy == Settings().proxy
    assert config.places == {
        "queue.limit": "--queue__limit",
        "queue.wait_limit_s": "PAIR_QUEUE_WAIT_LIMIT_S",
        "node.slots": f"[node] in {config.file}",
        "node.name": f"[node] in {config.file}",
    }


def test_lists_replace_each_other_whole(tmp_path: Path) -> None:
    text = '[[nodes]]\nurl = "http://a:1"\nslots = 2\n[[nodes]]\nurl = "http://b:1"\nname = "b"\n'
    from_file = loaded(tmp_path, text).settings.nodes
    assert from_file == (FixedNode("http://a:1", 2), FixedNode("http://b:1", 0, "b"))
    flags = loaded(tmp_path, text, nodes=["http://c:1"])
    assert flags.settings.nodes == (FixedNode("http://c:1"),)
    assert loaded(tmp_path, text, nodes=[]).settings.nodes == from_file


@pytest.mark.parametrize(
    "text",
    [
        '[strategies]\n"qwen3:30b" = "round-robin"\n',
        'strategies = {"qwen3:30b" = "round-robin"}\n',
    ],
)
def test_strategies_by_model_are_a_section_of_the_users_own_keys(tmp_path: Path, text: str) -> None:
    config = loaded(tmp_path, text)
    assert config.settings.strategies == (ModelStrategy("qwen3:30b", "round-robin"),)
    assert config.places == {"strategies": f"[strategies] in {config.file}"}
    environ = {"PAIR_STRATEGIES": "a=queue-depth b=round-robin"}
    names = [each.model for each in loaded(tmp_path, text, environ).settings.strategies]
    assert names == ["a", "b"]
    assert loaded(tmp_path, "strategies = {}\n").settings.strategies == ()


def test_every_mistake_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    text = '[proxy]\nstratgy = "x"\n[queu]\nlimit = 1\n[queue]\nlimit = -1\n'
    environ = {"PAIR_NODE_SLOTS": "two"}
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, text, environ, proxy__drain_s=-1)
    file = tmp_path / "config.toml"
    assert str(caught.value).splitlines() == [
        f"{file}: stratgy in [proxy] is not a setting; the nearest one is strategy",
        f"{file}: [queu] is not a section; the nearest one is queue",
        f"[queue] in {file}: queue.limit is -1; right is a whole number of tickets, at least 0",
        "PAIR_NODE_SLOTS: node.slots is 'two'; right is a whole number of requests, at least 0",
        "--proxy__drain_s: proxy.drain_s is -1; right is a number of s, at least 0",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[proxy\n", "is not TOML"),
        ("proxy = 3\n", "must be a section"),
        ('nodes = "http://a"\n[nodes]\n', "is not TOML"),
        ("[nodes]\nurl = 3\n", "right is a list"),
    ],
)
def test_a_file_of_the_wrong_form_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        loaded(tmp_path, text)


def test_a_file_that_the_user_names_must_be_there_and_readable(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no file"):
        load({}, environ={}, file=tmp_path / "none.toml", must_exist=True)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for unreadable in (tmp_path, tmp_path / "binary.toml"):
        with pytest.raises(SettingsError, match="cannot read"):
            load({}, environ={}, file=unreadable, must_exist=False)


def test_a_misspelt_variable_is_a_warning_because_others_set_variables_too(tmp_path: Path) -> None:
    environ = {"PAIR_PROXY_STRATGY": "x", "PAIR_HOME": "/", "PAIR_OTHER": "x", "PAIRING": "x"}
    (warning,) = loaded(tmp_path, environ=environ).warnings
    assert warning == (
        "the variable PAIR_PROXY_STRATGY is not a setting; the nearest one is PAIR_PROXY_STRATEGY"
    )


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert loaded(tmp_path, environ={"PAIR_QUEUE_LIMIT": ""}).settings == Settings()
