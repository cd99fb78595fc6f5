"""llama.cpp's own server tests, directly and through `pair`: does the same set pass?

Not a test of ours: it needs llama.cpp's sources (`tools/server/tests`), a `llama-server` built from
them, a Python with the requirements of those tests, and a GGUF file. Those tests start and stop the
program named by LLAMA_SERVER_BIN_PATH a few hundred times; here that is `llama_server_launcher`,
which puts the given model in the place of the tiny ones that the tests would download, and, for the
second run, `pair serve` in front. Where another model is needed, that is what the table says.

Run: python -m tests.measurements.llama_server_tests --tests LLAMA_CPP/tools/server/tests
--llama-server LLAMA_CPP/build/bin/llama-server --model FILE.gguf --python VENV/bin/python
[--json] [-- arguments for pytest, such as unit/test_stream.py]
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLUGIN = "tests.measurements.llama_server_tests"
LAUNCHER = "tests.measurements.llama_server_launcher"
THROUGH = "through pair"
ARMS = ("directly", THROUGH)
REPORT = "report.xml"
MISSING = "missing"
"""The launcher's own report: a line with test and model for each model that is not here."""

RUN_LIMIT_S = 3 * 3600.0
STACKS_AFTER_S = 300.0
"""A test that takes so long has its stacks shown; the slowest that passes takes a minute."""

_COMPLAINTS = ("failure", "error", "skipped")


@dataclass(frozen=True)
class Result:
    """What came of one test: passed, failed, skipped, or needs (another model, or a download)."""

    kind: str
    words: str = ""


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Of the plugin that this file is in the tests' own process: no model is downloaded."""
    presets = sys.modules["utils"].ServerPreset
    presets.load_all = staticmethod(lambda: None)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(chosen: argparse.Namespace, arm: str, folder: Path) -> None:
    """All tests under one arm; what came of them goes into the folder."""
    # Some tests save files there; others make it when they download something.
    (chosen.tests / "tmp").mkdir(exist_ok=True)
    launcher = folder / "llama-server"
    words = [sys.executable, "-m", LAUNCHER, "--real", str(chosen.llama_server)]
    words += ["--model", str(chosen.model), "--missing", str(folder / MISSING)]
    words += [f"--also-known-as={name}" for name in chosen.also_known_as]
    words += ["--pair", "--"] if arm == THROUGH else ["--"]
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {shlex.join(words)} "$@"\n')
    launcher.chmod(0o755)
    environment = {
        **os.environ,
        "LLAMA_SERVER_BIN_PATH": str(launcher),
        "LLAMA_CACHE": str(folder / "cache"),
        "PORT": str(free_port()),
        "PYTHONPATH": str(ROOT),
        "PAIR_HOME": str(folder / "home"),
    }
    command = [str(chosen.python), "-m", "pytest", "-p", PLUGIN, "-m", "not slow", "-v"]
    command += [f"--junitxml={folder / REPORT}", "-o", "junit_family=xunit1"]
    command += ["-o", f"faulthandler_timeout={STACKS_AFTER_S:g}", *(chosen.pytest or ["unit"])]
    with (folder / "output").open("wb") as output:
        subprocess.run(
            command,
            cwd=chosen.tests,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=RUN_LIMIT_S,
        )


def read_report(folder: Path) -> dict[str, Result]:
    """What came of each test under one arm."""
    lines = (folder / MISSING).read_text().splitlines() if (folder / MISSING).exists() else []
    needed = dict(line.split("\t", 1) for line in lines)
    results = {}
    for case in ET.parse(folder / REPORT).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it
        test = f"{case.get('file')}::{case.get('name')}"
        complaint = next((part for part in case if part.tag in _COMPLAINTS), None)
        if complaint is None:
            results[test] = Result("passed")
        elif complaint.tag == "skipped":
            results[test] = Result("skipped")
        elif test in needed:
            results[test] = Result("needs", needed[test])
        elif complaint.tag == "error":
            # Before the test itself only downloads can fail.
            results[test] = Result("needs", "a download")
        else:
            words = (complaint.get("message") or "").splitlines()
            results[test] = Result("failed", words[0] if words else "")
    return results


def table(directly: dict[str, Result], through: dict[str, Result]) -> dict[str, Any]:
    """Counts by file, and every test that ends one way only, or with other words."""
    rows: dict[str, Counter[str]] = {}
    differ = []
    for test, one in directly.items():
        other = through.get(test, Result("failed", "did not run"))
        row = rows.setdefault(test.partition("::")[0].removeprefix("unit/"), Counter())
        row["all"] += 1
        if "needs" in (one.kind, other.kind):
            row["needs another model"] += 1
        elif one.kind == other.kind:
            same = one.words == other.words
            row[f"{one.kind} both ways" if same else f"{one.kind} both ways, in other words"] += 1
            if not same:
                differ.append({"test": test, "directly": one.words, "through": other.words})
        else:
            row["passed directly only" if one.kind == "passed" else "passed through only"] += 1
            differ.append({"test": test, "directly": one.words, "through": other.words})
    return {"rows": {name: dict(row) for name, row in rows.items()}, "differ": differ}


COLUMNS = (
    "all",
    "passed both ways",
    "passed directly only",
    "passed through only",
    "failed both ways",
    "failed both ways, in other words",
    "needs another model",
    "skipped both ways",
)


def main() -> None:
    """Run both arms and print a Markdown table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=Path, required=True, help="tools/server/tests")
    parser.add_argument("--llama-server", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument(
        "--also-known-as",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name of the model; llama-server answers to any, pair to those that exist",
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--keep", type=Path, help="a folder for reports and output; what it has is kept"
    )
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    chosen = parser.parse_args()
    for name in ("tests", "llama_server", "model"):
        setattr(chosen, name, getattr(chosen, name).resolve(strict=True))
    chosen.python = chosen.python.absolute()  # not resolved: a venv's python is a link
    with tempfile.TemporaryDirectory() as temporary:
        results = []
        for arm in ARMS:
            folder = (chosen.keep or Path(temporary)).resolve() / arm.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / REPORT).exists():
                run(chosen, arm, folder)
            results.append(read_report(folder))
    compared = table(*results)
    if chosen.json:
        print(json.dumps(compared, indent=1))
        return
    print(f"| file | {' | '.join(COLUMNS)} |")
    print(f"|{'---|' * (len(COLUMNS) + 1)}")
    total: Counter[str] = Counter()
    for name, row in compared["rows"].items():
        total.update(row)
        print(f"| {name} | {' | '.join(str(row.get(column, 0)) for column in COLUMNS)} |")
    print(f"| all | {' | '.join(str(total[column]) for column in COLUMNS)} |")
    for one in compared["differ"]:
        words = f"directly {one['directly'] or 'passes'}, through {one['through'] or 'passes'}"
        print(f"- `{one['test']}`: {words}")


if __name__ == "__main__":
    main()
