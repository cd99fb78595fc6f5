"""The layers of the design hold, and the contracts that say so would notice if they did not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT, write

# The command beside the interpreter that runs these tests: the locked one, whatever the PATH says.
LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


_VERDICT = re.compile(r"^(.+) (KEPT|BROKEN)(?: \(.*\))?$", re.MULTILINE)


def contracts_of(root: Path) -> dict[str, bool]:
    """Run the repository's contracts on the package `pair` in `root`: contract -> kept."""
    if root != ROOT:
        shutil.copy(ROOT / "pyproject.toml", root)
    run = subprocess.run(
        [LINT_IMPORTS, "--no-logo", "--no-cache"],
        cwd=root,
        env={"COLUMNS": "400", "NO_COLOR": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    kept = {name: verdict == "KEPT" for name, verdict in _VERDICT.findall(run.stdout)}
    assert kept, run.stdout + run.stderr
    assert (run.returncode == 0) is all(kept.values()), run.stdout + run.stderr
    return kept


def sample(root: Path, files: dict[str, str]) -> Path:
    """A package `pair` with a folder or module for each pure layer, and these files on top."""
    for layer in ("core", "wire", "sim"):
        write(root, f"pair/{layer}/__init__.py", "")
    for name, text in files.items():
        write(root, name, text)
        for parent in (root / name).parents:
            if parent != root and parent.is_relative_to(root):
                (parent / "__init__.py").touch()
    return root


def broken(kept: dict[str, bool]) -> set[str]:
    """The first two words of each broken contract, enough to tell them apart."""
    return {" ".join(name.split()[:2]) for name, is_kept in kept.items() if not is_kept}


def unseen_folders(root: Path) -> list[str]:
    """Folders with code that import-linter does not look into, because they are no packages."""
    return sorted(
        folder.relative_to(root).as_posix()
        for folder in {path.parent for path in (root / "pair").rglob("*.py")}
        if not (folder / "__init__.py").is_file()
    )


def test_the_repository_keeps_every_contract() -> None:
    kept = contracts_of(ROOT)
    assert broken(kept) == set()
    assert len(kept) == 9


def test_the_contracts_see_every_folder() -> None:
    assert unseen_folders(ROOT) == []


def test_a_folder_that_is_no_package_is_noticed(tmp_path: Path) -> None:
    tree = sample(tmp_path, {"pair/proxy/app.py": ""})
    write(tree, "pair/proxy/pages/index.py", "import zeroconf\n")
    assert unseen_folders(tree) == ["pair/proxy/pages"]


def test_a_tree_that_obeys_is_accepted_though_most_folders_are_missing(tmp_path: Path) -> None:
    tree = sample(
        tmp_path,
        {
            "pair/errors.py": "",
            "pair/core/names.py": "import pair.errors\n",
            "pair/sim/world.py": "import random\nimport pair.core.names\n",
            "pair/discovery/browser.py": "import zeroconf.asyncio\n",
            "pair/bench/runner.py": "import openai\nimport rich.table\n",
            "pair/cli/main.py": "import typer\nimport rich\nimport pair.bench.runner\n",
            "pair/cli/chart.py": "import leather\n",
            "pair/trust/tls.py": "import cryptography.x509\nimport spake2\n",
            "pair/relay/heads.py": "import httptools\n",
        },
    )
    assert broken(contracts_of(tree)) == set()


def test_a_folder_without_a_place_fails(tmp_path: Path) -> None:
    tree = sample(tmp_path, {"pair/extras/thing.py": ""})
    assert broken(contracts_of(tree)) == {"Imports run"}


def test_an_import_upward_fails(tmp_path: Path) -> None:
    tree = sample(
        tmp_path, {"pair/settings.py": "", "pair/relay/tunnel.py": "import pair.settings\n"}
    )
    assert broken(contracts_of(tree)) == {"Imports run"}


def test_an_import_between_siblings_fails(tmp_path: Path) -> None:
    tree = sample(
        tmp_path, {"pair/proxy/app.py": "", "pair/agent/app.py": "from pair.proxy import app\n"}
    )
    assert broken(contracts_of(tree)) == {"Imports run"}


def test_a_clock_in_core_fails_even_through_another_module(tmp_path: Path) -> None:
    tree = sample(
        tmp_path,
        {"pair/errors.py": "import time\n", "pair/core/scheduler.py": "import pair.errors\n"},
    )
    assert broken(contracts_of(tree)) == {"core, wire"}


def test_a_library_outside_its_folder_fails(tmp_path: Path) -> None:
    imports = "import zeroconf\nimport openai\nimport typer\nimport rich\nimport httptools\n"
    tree = sample(tmp_path, {"pair/proxy/app.py": imports + "import spake2\n"})
    assert broken(contracts_of(tree)) == {
        "Only discovery",
        "Only bench",
        "Only cli",
        "Only terminal,",
        "Only trust",
        "Only relay",
    }


def test_the_library_of_pictures_outside_the_command_line_fails(tmp_path: Path) -> None:
    tree = sample(tmp_path, {"pair/sim/report.py": "import leather\n"})
    assert broken(contracts_of(tree)) == {"Only cli"}
