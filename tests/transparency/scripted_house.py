"""A house of scripted engines, each a fixed node, before which a client sees who answers what."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from pair.settings import Settings
from tests.support.house import House, house
from tests.transparency.scripted_engine import Pages, ScriptedEngine, scripted


@dataclass
class ScriptedHouse:
    """Scripted engines with the same model, and the house before them."""

    house: House
    engines: dict[str, ScriptedEngine]

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, str, Any]:
        """Status, the name of the node that answered, and what it said."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.house.client.request(method, path, json=body, headers=named) as answer:
            said = await answer.text()
            kind = answer.content_type
            value = await answer.json() if kind == "application/json" else said
            return answer.status, answer.headers.get("x-pair-node", ""), value

    def other(self, name: str) -> str:
        (other,) = self.engines.keys() - {name}
        return other


async def two(
    stack: AsyncExitStack,
    *pages: Pages,
    settings: Settings | None = None,
    ollama: Collection[str] = (),
) -> ScriptedHouse:
    """Engines `a` and `b` with these pages, and Ollama's where they are called so."""
    engines = {
        name: await stack.enter_async_context(scripted(pages=each, ollama=name in ollama))
        for name, each in zip("ab", pages, strict=False)
    }
    settings = settings or Settings()
    nodes = tuple(engine.node(name) for name, engine in engines.items())
    built = await stack.enter_async_context(house(settings=replace(settings, nodes=nodes)))
    await built.ready(len(engines))
    return ScriptedHouse(built, engines)
