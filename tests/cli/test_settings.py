from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Pair


def test_every_knob_is_shown_with_where_it_comes_from(
    pair: Pair, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[queue]\nlimit = 5\n")
    monkeypatch.setenv("PAIR_NODE_SLOTS", "2")
    rows = {row["key"]: row for row in pair("settings", "--json").json["settings"]}
    assert (rows["queue.limit"]["value"], rows["queue.limit"]["default"]) == (5, 1000)
    assert rows["queue.limit"]["from"] == f"[queue] in {home / 'config.toml'}"
    assert rows["node.slots"]["from"] == "PAIR_NODE_SLOTS"
    assert rows["proxy.drain_s"]["from"] == "default"
    table = pair("settings").out
    assert all(key in table for key in rows)
    assert str(home / "config.toml") in table.splitlines()[0]


def test_what_is_set_survives_and_what_is_unset_is_the_default_again(
    pair: Pair, home: Path
) -> None:
    run = pair("settings", "set", "proxy.strategy", "round-robin")
    assert (run.code, run.out) == (0, "proxy.strategy = round-robin\n")
    assert "`pair strategy NAME` switches a running proxy" in run.err
    nodes = ("http://192.168.1.20:11434,slots=2,name=attic", "http://192.168.1.21:8000")
    assert pair("settings", "set", "nodes", *nodes).out == f"nodes = {' '.join(nodes)}\n"
    values = {row["key"]: row["value"] for row in pair("settings", "--json").json["settings"]}
    assert values["proxy.strategy"] == "round-robin"
    assert values["nodes"][0] == {
        "url": "http://192.168.1.20:11434",
        "slots": 2,
        "name": "attic",
        "key_env": "",
        "key_file": "",
    }
    assert pair("settings", "unset", "nodes").code == 0
    assert "nodes" not in (home / "config.toml").read_text()
    run = pair("settings", "unset", "proxy.strategy")
    assert run.out == "proxy.strategy = finish-time (the default)\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["proxy.stratgy", "x"], "proxy.stratgy is not a setting; the nearest one is"),
        (["queue.limit", "many"], "queue.limit is 'many'; right is a whole number of tickets"),
        (["queue.limit", "1", "2"], "queue.limit takes one value, not 2"),
        (["proxy.listen", "everywhere"], "proxy.listen is wrong: 'everywhere' is not an address"),
    ],
)
def test_a_wrong_value_changes_nothing(
    pair: Pair, home: Path, arguments: list[str], sentence: str
) -> None:
    run = pair("settings", "set", *arguments)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith(f"pair: {sentence}")
    assert not home.exists()


def test_a_file_that_cannot_be_edited_is_left_alone(pair: Pair, home: Path) -> None:
    home.mkdir()
    text = "queue = { limit = 5 }\n"
    (home / "config.toml").write_text(text)
    run = pair("settings", "set", "queue.limit", "6")
    assert run.code == 1
    assert run.err.endswith("edit the file yourself\n")
    assert (home / "config.toml").read_text() == text


def test_a_broken_file_can_be_repaired_with_set(pair: Pair, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[queue]\nlimit = -5  # oops\n")
    assert "queue.limit is -5" in pair("settings").err
    assert pair("settings", "set", "queue.limit", "5").code == 0
    assert (home / "config.toml").read_text() == "[queue]\nlimit = 5  # oops\n"


def test_a_named_file_a_link_and_a_variable_that_wins(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = tmp_path / "dotfiles.toml", tmp_path / "link.toml"
    real.write_text("# mine\n")
    link.symlink_to(real)
    monkeypatch.setenv("PAIR_QUEUE_LIMIT", "9")
    monkeypatch.setenv("PAIR_QUEUE_LIMT", "9")
    run = pair("settings", "--config", str(link), "set", "queue.limit", "7")
    assert run.err == (
        f"pair: PAIR_QUEUE_LIMIT is set and wins over {link}\n"
        "pair: what runs already goes on as it began\n"
    )
    assert link.is_symlink()
    assert real.read_text() == "# mine\n\n[queue]\nlimit = 7\n"
    run = pair("settings", "--config", str(link), "--json")
    assert "the variable PAIR_QUEUE_LIMT is not a setting" in run.err
    assert run.json["file"] == str(link)
    missing = pair("settings", "--config", str(tmp_path / "none.toml"))
    assert (missing.code, missing.err) == (2, f"pair: there is no file {tmp_path / 'none.toml'}\n")
