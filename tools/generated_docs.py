"""The docs that are generated from the code: docs/cli.md and docs/settings.md.

Apart from `pair`, which does not need them to run. `--check` (part of `make check`) writes nothing
and fails if a page on disk is not what the code says now, so that neither page can lie.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from pair.cli.knobs import knobs
from pair.cli.main import app
from pair.settings import Settings
from tools.cli_page import cli_page
from tools.settings_page import settings_page

DOCS = Path(__file__).resolve().parents[1] / "docs"


def pages() -> dict[str, str]:
    """File name under docs/ -> what the code says that it must contain."""
    return {"cli.md": cli_page(app), "settings.md": settings_page(Settings, knobs())}


def stale(folder: Path, expected: Mapping[str, str]) -> list[str]:
    """The names of the pages in `folder` that are missing or differ."""
    return [
        name
        for name, text in expected.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]


def write(folder: Path, expected: Mapping[str, str]) -> None:
    """Put every page into `folder`."""
    for name, text in expected.items():
        (folder / name).write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` say which are stale; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.generated_docs", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail if a page differs"
    )
    expected = pages()
    if not parser.parse_args(arguments).check:
        write(DOCS, expected)
        return 0
    different = stale(DOCS, expected)
    for name in different:
        print(f"docs/{name} is not what the code says; `make docs` writes it anew", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
