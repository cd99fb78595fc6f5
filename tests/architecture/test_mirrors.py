"""Each source with logic has its test file at the mirrored place, so one knows where to look."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tests.architecture.source_tree import ROOT, Module, accept, modules, write

# Sources with a function in them that need no test of their own, and why.
EXEMPT = {
    "pair/errors.py": "types only; each is asserted where it is raised",
    "pair/core/names.py": "identities only; their text is asserted wherever a reason is",
}
# Sources that only mean something together with another, and the test of both.
ELSEWHERE: dict[str, str] = {}


def has_logic(module: Module) -> bool:
    """Whether any function in here does something, other than a Protocol's stub or a docstring."""
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not all(
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            for statement in node.body
        )
        for node in ast.walk(module.tree)
    )


def is_mirrored(root: Path, module: Module) -> bool:
    """`pair/x/y.py` is mirrored by `tests/x/test_y.py`, or by several `tests/x/test_y_*.py`."""
    source = PurePosixPath(module.name).relative_to("pair")
    folder = root / "tests" / source.parent
    return (folder / f"test_{source.stem}.py").is_file() or any(
        folder.glob(f"test_{source.stem}_*.py")
    )


def unmirrored(
    root: Path, exempt: Mapping[str, str] = EXEMPT, elsewhere: Mapping[str, str] = ELSEWHERE
) -> list[str]:
    """The sources with logic that no test mirrors, and the exceptions that do not hold."""
    needing = {
        module.name
        for module in modules(root, "pair")
        if has_logic(module) and not is_mirrored(root, module)
    }
    excepted = exempt.keys() | elsewhere.keys()
    return [
        *(f"{name}: no test mirrors it" for name in sorted(needing - excepted)),
        *(f"{name}: needs no exception" for name in sorted(excepted - needing)),
        *(f"{test}: does not exist" for test in elsewhere.values() if not (root / test).is_file()),
    ]


def test_every_source_with_logic_is_mirrored() -> None:
    accept(unmirrored(ROOT))


def test_a_source_without_a_test_is_noticed(tmp_path: Path) -> None:
    logic = "class C:\n    def f(self):\n        return 1\n"
    for name in ("relay/heads", "relay/sweep", "relay/tunnel", "settings"):
        write(tmp_path, f"pair/{name}.py", logic)
    write(
        tmp_path,
        "pair/relay/seam.py",
        'class P:\n    def f(self) -> int:\n        """x"""\n        ...\n',
    )
    write(tmp_path, "tests/relay/test_heads.py", "")
    write(tmp_path, "tests/relay/test_tunnel_framing.py", "")
    write(tmp_path, "tests/wire/test_sweep.py", "")
    assert unmirrored(tmp_path, {"pair/settings.py": "why"}, {}) == [
        "pair/relay/sweep.py: no test mirrors it"
    ]


def test_an_exception_that_does_not_hold_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, "pair/relay/sweep.py", "def f():\n    return 1\n")
    exempt, elsewhere = {"pair/gone.py": "why"}, {"pair/relay/sweep.py": "tests/gone.py"}
    assert unmirrored(tmp_path, exempt, elsewhere) == [
        "pair/gone.py: needs no exception",
        "tests/gone.py: does not exist",
    ]
