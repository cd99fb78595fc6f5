"""What must be nowhere: registries' addresses, stray prints, bare tasks, unexplained exceptions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.source_tree import ROOT, Module, accept, modules, repository_files, write

# In parts, so that this file does not name what it forbids.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("debian", "org"),
        ("ubuntu", "com"),
        ("crates", "io"),
        ("golang", "org"),
        ("anaconda", "org"),
    )
]
# Options by which a requirements file would carry an address; each machine has its own setting.
INDEX_OPTIONS = ("--index-url", "--extra-index-url", "--find-links", "--trusted-host", "-i ", "-f ")
# Its callers print for a living.
PRINTING = ("pair/cli/", "pair/terminal/")

# What silences a tool is followed by the reason, after a dash or as a comment of its own.
_EXCEPTION = re.compile(r"# (?:noqa|type: ignore)\b(?:: [A-Z0-9, ]+|\[[a-z, -]+\])?(.*)$")


def registry_addresses(path: Path) -> list[str]:
    """The registry addresses in a file; a binary file has none."""
    try:
        text = path.read_text(encoding="utf-8").lower()
    except UnicodeDecodeError:
        return []
    return [f"{path}: names {address}" for address in REGISTRIES if address in text]


def index_options(path: Path) -> list[str]:
    """The lines of a requirements file that say where to download from."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [f"{path}: {line}" for line in lines if line.strip().startswith(INDEX_OPTIONS)]


def prints(module: Module) -> list[str]:
    """Calls of `print` in a module that has no business with the terminal."""
    if module.name.startswith(PRINTING):
        return []
    return [
        f"{module.name}:{node.lineno}: print"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def bare_tasks(module: Module) -> list[str]:
    """Tasks outside a TaskGroup; the linter sees `asyncio.create_task`, but not `loop.create_task`.

    A TaskGroup is what the module opens as one, or what is named so: `..._group`, `..._tasks`.
    """
    opened = {
        ast.unparse(item.optional_vars)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if item.optional_vars and ast.unparse(item.context_expr).endswith("TaskGroup()")
    }
    complaints = []
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id="create_task" | "ensure_future" | "gather" as name)):
                complaints.append(f"{module.name}:{node.lineno}: {name}")
            case ast.Call(func=ast.Attribute(attr="ensure_future" | "gather" as name)):
                complaints.append(f"{module.name}:{node.lineno}: {name}")
            case ast.Call(func=ast.Attribute(attr="create_task", value=receiver)):
                group = ast.unparse(receiver)
                if group not in opened and not group.endswith(("group", "tasks")):
                    complaints.append(f"{module.name}:{node.lineno}: create_task")
    return complaints


def unexplained(module: Module) -> list[str]:
    """Lines that silence the linter or the type checker and do not say why."""
    return [
        f"{module.name}:{number}: {line.strip()}"
        for number, line in enumerate(module.text.splitlines(), 1)
        if (found := _EXCEPTION.search(line)) and len(found[1].strip(" -#").split()) < 2
    ]


def test_no_file_names_a_registry() -> None:
    files = repository_files()
    assert files
    accept([complaint for path in files for complaint in registry_addresses(path)])


def test_no_requirements_file_says_where_to_download() -> None:
    files = sorted((ROOT / "requirements").glob("*.txt"))
    assert files
    accept([complaint for path in files for complaint in index_options(path)])


def test_only_the_command_line_and_the_terminal_print() -> None:
    accept([complaint for module in modules(ROOT, "pair") for complaint in prints(module)])


def test_every_task_lives_in_a_group() -> None:
    sources = modules(ROOT, "pair", "tests", "examples")
    accept([complaint for module in sources for complaint in bare_tasks(module)])


def test_every_exception_to_a_rule_says_why() -> None:
    sources = modules(ROOT, "pair", "tools", "examples")
    accept([complaint for module in sources for complaint in unexplained(module)])


def test_an_address_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", f"--index-url https://{REGISTRIES[0].upper()}/simple\nrich==15\n")
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe\x00")
    assert len(registry_addresses(tmp_path / "a.txt")) == 1
    assert len(index_options(tmp_path / "a.txt")) == 1
    assert registry_addresses(tmp_path / "b.bin") == []


def test_a_print_is_noticed(tmp_path: Path) -> None:
    for name in ("proxy/app", "cli/top", "terminal/live"):
        write(tmp_path, f"pair/{name}.py", "def f():\n    print(1)\n")
    assert [c for module in modules(tmp_path, "pair") for c in prints(module)] == [
        "pair/proxy/app.py:2: print"
    ]


def test_a_bare_task_is_noticed(tmp_path: Path) -> None:
    lines = [
        "asyncio.create_task(f())",
        "loop.create_task(f())",
        "asyncio.get_running_loop().create_task(f())",
        "create_task(f())",
        "asyncio.gather(f())",
        "asyncio.ensure_future(f())",
        "group.create_task(f())",
        "self._tasks.create_task(f())",
        "task_group.create_task(f())",
        "async def g():",
        "    async with asyncio.TaskGroup() as calls:",
        "        calls.create_task(f())",
    ]
    write(tmp_path, "pair/proxy/app.py", "\n".join(lines))
    found = [c.split(":")[1] for module in modules(tmp_path, "pair") for c in bare_tasks(module)]
    assert found == ["1", "2", "3", "4", "5", "6"]


def test_an_exception_without_a_reason_is_noticed(tmp_path: Path) -> None:
    lines = [
        "a = 1  # noqa: S105",
        "a = 1  # noqa: S105, E501 - why",
        "a = 1  # type: ignore[arg-type]",
        "a = 1  # type: ignore",
        "a = 1  # noqa: S105 - a mark, no secret",
        "a = 1  # type: ignore[arg-type]  # the stub lacks this overload",
    ]
    write(tmp_path, "pair/proxy/app.py", "\n".join(lines))
    found = [c.split(":")[1] for module in modules(tmp_path, "pair") for c in unexplained(module)]
    assert found == ["1", "2", "3", "4"]
