"""One word for one thing: the names that `pair` defines use the design's words, not their rivals.

Only names that we *define* count: functions, classes, arguments, variables, attributes of `self`,
import aliases, files and folders. What a library demands (`site.start(host=...)`,
`loop.create_server`, `request.host`) is its word, not ours.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tests.architecture.source_tree import ROOT, Module, accept, modules, write

# Design section 3. Each of these means several things, or another thing elsewhere.
RIVALS = {
    "worker", "backend", "host", "endpoint", "peer", "manager", "util", "helper", "common", "misc",
    "data", "info",
}  # fmt: skip
# Fine as a part of a name that says which one (`echo_server`), too vague alone.
RIVALS_ALONE = {"server"}
# Methods that a library calls by this very name; their arguments have its names, too.
DEMANDED = {"data_received": "asyncio.Protocol"}
# The fields of such a class are the keys of someone else's JSON.
JSON_SHAPES = {"Struct", "msgspec.Struct", "TypedDict"}

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words(name: str) -> list[str]:
    """`HTTPHeadParser` and `http_head_parser` are both http, head, parser."""
    return [word.lower() for word in _WORD.findall(name)]


def rival_in(name: str) -> str | None:
    """The word in `name` that the design does not use, None if there is none; plurals count."""
    if name in DEMANDED:
        return None
    parts = [word.removesuffix("s") for word in words(name)]
    if len(parts) == 1 and parts[0] in RIVALS_ALONE:
        return parts[0]
    return next((part for part in parts if part in RIVALS), None)


def _defined_by(node: ast.AST) -> Iterator[str | None]:
    """The names that this one syntax node brings into being, not those of its children."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self" | "cls")):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.alias(asname=name) | ast.ExceptHandler(name=name):
            yield name
        case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.MatchMapping(rest=name):
            yield name


def _demanded(module: Module) -> Iterator[ast.AST]:
    """Names that someone else chose: arguments of a library's methods, fields of foreign JSON."""
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef(name=name) if name in DEMANDED:
                yield from node.args.args
            case ast.ClassDef() if any(ast.unparse(base) in JSON_SHAPES for base in node.bases):
                yield from (line.target for line in node.body if isinstance(line, ast.AnnAssign))


def rivals(module: Module) -> list[str]:
    """Every definition in this module, and the module's own path, that uses a rival word."""
    complaints = [
        f"{module.name}: {part} says {word}"
        for part in PurePosixPath(module.name).with_suffix("").parts
        if (word := rival_in(part)) is not None
    ]
    demanded = set(_demanded(module))
    for node in ast.walk(module.tree):
        if node in demanded:
            continue
        for name in _defined_by(node):
            if name is not None and (word := rival_in(name)) is not None:
                line = getattr(node, "lineno", 0)
                complaints.append(f"{module.name}:{line}: {name} says {word}")
    return complaints


def test_pair_uses_the_words_of_the_design() -> None:
    accept([complaint for module in modules(ROOT, "pair") for complaint in rivals(module)])


def test_every_kind_of_definition_is_looked_at(tmp_path: Path) -> None:
    sample = """
import socket as peer_socket
class NodeManager: ...
def helper(backend, *workers, misc=1, **hosts): ...
async def common_part(): ...
server: int = 1
for endpoint in (): ...
with open("x") as data: ...
def f(self):
    self.info = [util for util in ()]
    if (nodeInfo := 1): ...
    try: ...
    except OSError as data: ...
    match self:
        case [*hosts]: ...
        case {"a": peer, **data}: ...
lambda worker: worker
"""
    write(tmp_path, "pair/backends/engine.py", sample)
    found = [c.split()[1] for module in modules(tmp_path, "pair") for c in rivals(module)]
    expected = """
        backends peer_socket NodeManager helper backend workers misc hosts common_part server
        endpoint data info util nodeInfo data hosts peer data worker
    """
    assert sorted(found) == sorted(expected.split())


def test_the_words_of_libraries_and_innocent_lookalikes_are_left_alone(tmp_path: Path) -> None:
    sample = """
from zeroconf import ServiceInfo
class Tunnel:
    def data_received(self, data): ...
class ModelList(Struct):
    data: list[str]
async def start(loop, request, parameters, echo_server):
    await loop.create_server(factory, host="::1", data=b"")
    parameters.hostnames = request.host
    metadata = database = ghost = information = logging.info
"""
    write(tmp_path, "pair/relay/tunnel.py", sample)
    assert [c for module in modules(tmp_path, "pair") for c in rivals(module)] == []
