"""The repository as data: its files, and the parsed modules under a folder.

Apart from the tests so that each check is a function of a folder, which lets its self-test run it
on a bad sample in a temporary one.
"""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Module:
    """One parsed Python file; `name` is its path relative to the root, with forward slashes."""

    name: str
    text: str
    tree: ast.Module


def modules(root: Path, *folders: str) -> list[Module]:
    """Every Python file under these folders of `root`, sorted; a missing folder is empty."""
    found = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            name = path.relative_to(root).as_posix()
            found.append(Module(name, text, ast.parse(text, filename=name)))
    return found


def write(root: Path, name: str, text: str) -> None:
    """Put a sample file into a temporary root."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def repository_files() -> list[Path]:
    """Every file that git tracks or would track, so that a file fails before it is committed."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def accept(complaints: list[str]) -> None:
    """Fail with one complaint a line, since pytest shortens a long list to its first item."""
    assert not complaints, "\n" + "\n".join(complaints)
