from __future__ import annotations

from tests.cli.conftest import Pages, Pair
from tests.terminal.samples import model, node, replica, snapshot


def test_a_table_for_people_and_exact_json_for_programs(pair: Pair, pages: Pages) -> None:
    shown = snapshot(node("attic", replica("tiny")), models=[model("tiny")])
    pages.put("/pair/v1/snapshot", shown)
    for command in ("nodes", "models"):
        table = pair(command, "--proxy", pages.url)
        assert table.code == 0
        assert "tiny" in table.out
        assert pair(command, "--proxy", pages.url, "--json").json == shown[command]


def test_nothing_found_is_told_in_words_but_not_in_json(pair: Pair, pages: Pages) -> None:
    pages.put("/pair/v1/snapshot", snapshot())
    assert pair("nodes", "--proxy", pages.url).out == "no node has been found yet\n"
    assert pair("models", "--proxy", pages.url).out == "no node holds a model yet\n"
    assert pair("nodes", "--proxy", pages.url, "--json").json == []


def test_without_a_proxy_one_sentence(pair: Pair, monkeypatch: object) -> None:
    run = pair("nodes", "--proxy", "http://127.0.0.1:1")
    assert (run.code, run.out) == (1, "")
    assert run.err.startswith("pair: no pair proxy answers at http://127.0.0.1:1; start one with")
    assert len(run.err.splitlines()) == 1


def test_the_settings_say_which_proxy(pair: Pair, pages: Pages) -> None:
    pages.put("/pair/v1/snapshot", snapshot(node("attic")))
    pair("settings", "set", "proxy.listen", pages.url.removeprefix("http://"))
    assert "attic" in pair("nodes").out
