from __future__ import annotations

from pathlib import Path

import pytest

from pair.cli.doctor import own_findings
from pair.cli.folders import node_id
from pair.settings import Settings
from tests.cli.conftest import Pages, Pair
from tests.terminal.samples import node, snapshot


def verdicts(home: Path) -> list[tuple[str, str]]:
    _, findings = own_findings(None)
    return [(finding.subject, finding.verdict) for finding in findings]


def test_looking_at_a_fresh_machine_changes_nothing(home: Path) -> None:
    assert verdicts(home) == [("settings", "fine"), ("this machine", "note")]
    assert not home.exists()
    node_id(home)
    assert verdicts(home) == [("settings", "fine"), ("this machine", "fine")]


def test_wrong_settings_and_a_damaged_id_are_told_and_the_defaults_examined(home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[queue]\nlimit = -1\n[proxy]\nlisten = 3\n")
    (home / "node-id").write_text("x")
    settings, findings = own_findings(None)
    assert settings == Settings()
    assert [(finding.subject, finding.verdict) for finding in findings] == [
        ("settings", "wrong"),
        ("settings", "wrong"),
        ("this machine", "wrong"),
    ]


def test_the_exit_code_says_whether_something_is_wrong(
    pair: Pair, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAIR_PROXY_DISCOVERY", "no")
    monkeypatch.setenv("PAIR_PROXY_LISTEN", pages.url.removeprefix("http://"))
    monkeypatch.setenv("PAIR_QUEUE_LIMT", "1")
    run = pair("doctor", "--json")
    assert run.code == 1
    rows = {row["subject"]: row for row in run.json}
    assert rows["proxy"]["words"] == f"what answers at {pages.url} is not a pair proxy"
    assert (rows["mDNS"]["verdict"], rows["settings"]["verdict"]) == ("note", "note")
    pages.put("/pair/v1/snapshot", snapshot(node("attic")))
    run = pair("doctor")
    assert run.code == 0
    assert "1 of 1 node ready" in run.out
