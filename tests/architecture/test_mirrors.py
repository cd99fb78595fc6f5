"""Each source with logic has its test file at the mirrored place, so one knows where to look."""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath

from tests.architecture.source_tree import ROOT, Module, accept, modules, write

# Sources with a function in them that need no test of their own, and why.
EXEMPT: dict[str, str] = {
    "pair/errors.py": "types only; each is asserted where it is raised",
    "pair/core/names.py": "identities only; their text is asserted wherever a reason is",
}


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


def unmirrored(root: Path, exempt: dict[str, str]) -> list[str]:
    """The sources with logic that no test file mirrors, and the exemptions that nothing needs."""
    needing = {
        module.name
        for module in modules(root, "pair")
        if has_logic(module) and not is_mirrored(root, module)
    }
    missing = [f"{name}: no test mirrors it" for name in sorted(needing - exempt.keys())]
    stale = [f"{name}: needs no exemption" for name in sorted(exempt.keys() - needing)]
    return missing + stale


def test_every_source_with_logic_is_mirrored() -> None:
    accept(unmirrored(ROOT, EXEMPT))


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
    assert unmirrored(tmp_path, {"pair/settings.py": "why"}) == [
        "pair/relay/sweep.py: no test mirrors it"
    ]


def test_an_exemption_that_nothing_needs_is_noticed(tmp_path: Path) -> None:
    assert unmirrored(tmp_path, {"pair/gone.py": "why"}) == ["pair/gone.py: needs no exemption"]
