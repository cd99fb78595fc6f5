"""Every dependency has its reason, its bounds, and its pin with hashes in the locked files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tests.architecture.source_tree import ROOT

REASONS = ROOT / "docs" / "decisions" / "0001-dependencies.md"
_PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
_REASON = re.compile(r"^- `([a-z0-9-]+)`: (.{20,})$", re.MULTILINE)
_PIN = re.compile(
    r"^([a-z0-9-]+)==\S+((?: ;[^\\\n]*)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE
)


def required(pyproject: Path) -> dict[str, list[str]]:
    """What pyproject.toml asks for by name: in the package itself, and in each extra and group."""
    content = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    lists = {"runtime": content["project"]["dependencies"]}
    lists |= content["project"]["optional-dependencies"]
    lists |= content["dependency-groups"]
    return lists


def reasons(text: str) -> set[str]:
    """The distributions that a decision record gives a reason for, one list item each."""
    return {name for name, _ in _REASON.findall(text)}


def pins(text: str) -> set[str]:
    """The distributions that a requirements file pins to one version and its hashes."""
    return {name for name, _ in _PIN.findall(text)}


def test_every_dependency_has_its_reason_and_no_reason_is_left_over() -> None:
    lists = required(ROOT / "pyproject.toml").values()
    wanted = {Requirement(line).name for lines in lists for line in lines}
    assert reasons(REASONS.read_text(encoding="utf-8")) == wanted


def test_every_dependency_has_a_lower_and_an_upper_bound() -> None:
    for lines in required(ROOT / "pyproject.toml").values():
        for line in lines:
            assert ">=" in line, line
            # The version of xllamacpp is a date: there is no major version to stop at.
            assert "<" in line or line.startswith("xllamacpp"), line


def unlocked(requirements: list[str], text: str) -> list[str]:
    """The requirements that a locked file does not pin, or to a version outside their bounds."""
    versions = dict(_PINNED.findall(text))
    return [
        line
        for line in requirements
        if (wanted := Requirement(line)).name not in versions
        or versions[wanted.name] not in wanted.specifier
    ]


def test_the_locked_files_hold_all_that_pyproject_asks_for_and_nothing_without_a_hash() -> None:
    lists = required(ROOT / "pyproject.toml")
    runtime = lists["runtime"] + lists["engine"] + lists["chart"] + lists["build"]
    wanted = {
        "engine": runtime,
        "dev": runtime + lists["dev"],
        "model": lists["model"],
        "lock": lists["lock"],
    }
    for file, requirements in wanted.items():
        text = (ROOT / "requirements" / f"{file}.txt").read_text(encoding="utf-8")
        assert unlocked(requirements, text) == [], f"{file}: run `make lock`"
        assert len(pins(text)) == len(_PINNED.findall(text)), f"{file}: a pin without hashes"


def test_the_locked_files_agree_on_every_version() -> None:
    engine, dev = (
        set(_PINNED.findall((ROOT / "requirements" / name).read_text(encoding="utf-8")))
        for name in ("engine.txt", "dev.txt")
    )
    assert engine <= dev


def test_a_reason_too_short_and_a_pin_without_hash_do_not_count() -> None:
    assert reasons("- `rich`: nice\n- `typer`: argv to functions, with help texts\n") == {"typer"}
    digest = "0" * 64
    text = f"rich==15.0.0\ntyper==1.0 ; sys_platform == 'linux' \\\n    --hash=sha256:{digest}\n"
    assert pins(text) == {"typer"}
    assert unlocked(["rich>=15,<16", "typer>=2", "mypy>=2"], text) == ["typer>=2", "mypy>=2"]
