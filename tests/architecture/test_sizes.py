"""Files and functions stay small enough to be read at once, and no folder is a drawer."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.source_tree import ROOT, Module, accept, modules, write

FILE_LINES = 400
FUNCTION_LINES = 60
DRAWERS = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}


def oversized(module: Module) -> list[str]:
    """What in this module is above the limits; a decorator counts, as it is read too."""
    complaints = []
    lines = len(module.text.splitlines())
    if lines > FILE_LINES:
        complaints.append(f"{module.name}: {lines} lines, at most {FILE_LINES}")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            assert node.end_lineno is not None
            length = node.end_lineno - first + 1
            if length > FUNCTION_LINES:
                complaints.append(
                    f"{module.name}:{first}: {node.name} has {length} lines,"
                    f" at most {FUNCTION_LINES}"
                )
    return complaints


def drawers(root: Path, *folders: str) -> list[str]:
    """Folders and files whose name says nothing about what is inside."""
    return [
        path.relative_to(root).as_posix()
        for folder in folders
        for path in sorted((root / folder).rglob("*"))
        if path.stem in DRAWERS and "__pycache__" not in path.parts
    ]


def test_no_file_and_no_function_is_too_long() -> None:
    sources = modules(ROOT, "pair", "tools")
    accept([complaint for module in sources for complaint in oversized(module)])


def test_no_folder_is_a_drawer() -> None:
    accept(drawers(ROOT, "pair", "tools", "tests", "examples"))


def test_a_file_of_401_lines_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, "pair/long.py", "\n" * 401)
    write(tmp_path, "pair/longest_allowed.py", "\n" * 400)
    complaints = [c for module in modules(tmp_path, "pair") for c in oversized(module)]
    assert complaints == ["pair/long.py: 401 lines, at most 400"]


def test_a_function_of_61_lines_is_noticed_wherever_it_hides(tmp_path: Path) -> None:
    for body_lines in (59, 60):
        body = "        pass\n" * body_lines
        write(tmp_path, f"pair/of_{body_lines}.py", f"class C:\n    async def work(self):\n{body}")
    complaints = [c for module in modules(tmp_path, "pair") for c in oversized(module)]
    assert complaints == ["pair/of_60.py:2: work has 61 lines, at most 60"]


def test_a_drawer_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, "pair/proxy/utils/text.py", "")
    write(tmp_path, "pair/proxy/helpers.py", "")
    assert drawers(tmp_path, "pair") == ["pair/proxy/helpers.py", "pair/proxy/utils"]
