"""Item 21: what changes one machine goes to one machine, and to the right one."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.transparency.scripted_engine import Pages, event
from tests.transparency.scripted_house import two

ACTS: list[tuple[str, str, Any]] = [
    ("POST", "/api/pull", {"model": "new"}),
    ("POST", "/api/pull", {"name": "new"}),
    ("POST", "/api/create", {"model": "new", "from": "m"}),
    ("POST", "/api/push", {"model": "m"}),
    ("POST", "/api/copy", {"source": "m", "destination": "n"}),
    ("DELETE", "/api/delete", {"model": "m"}),
    ("DELETE", "/api/delete", {"name": "m"}),
    ("DELETE", "/v1/models/m", None),
    ("POST", "/api/v1/models/load", {"model": "m"}),
    ("POST", "/api/v1/models/unload", {"instance_id": "m"}),
    ("POST", "/models/load", {"model": "m"}),
    ("POST", "/models/unload", {"model": "m"}),
    ("POST", "/slots/0?action=erase", {}),
    ("POST", "/lora-adapters", [{"id": 0, "scale": 1.0}]),
    ("POST", "/v1/load_lora_adapter", {"lora_name": "l", "lora_path": "/l"}),
]


def bare(path: str) -> str:
    return path.partition("?")[0]


@pytest.mark.parametrize(("method", "path", "body"), ACTS)
async def test_21_where_several_could_be_meant_the_client_must_say_which(
    method: str, path: str, body: Any
) -> None:
    """And what it says counts, for the path's own dialect and whatever would be next."""
    page: Pages = {(method, bare(path)): (200, {"status": "success"})}
    async with AsyncExitStack() as stack:
        house = await two(stack, page, dict(page), ollama=("a", "b"))
        status, _, said = await house.ask(method, path, body)
        error = said["error"] if path.startswith("/api/") and "/v1/" not in path else ""
        words = error or said["error"]["message"]
        assert status == 400
        assert words.endswith("x-pair-node: a, b.")
        assert (said if error else said["error"])["code"] == "node_required"
        assert [engine.asked for engine in house.engines.values()] == [[], []]
        for node in ("b", "a"):
            assert (await house.ask(method, path, body, x_pair_node=node))[:2] == (200, node)
        await house.house.quiet()
        house.house.assert_books_are_clean()


@pytest.mark.parametrize(("method", "path", "body"), ACTS[:7])
async def test_21_where_one_can_be_meant_it_goes_there(method: str, path: str, body: Any) -> None:
    """The only Ollama, though another engine holds the model, too."""
    page: Pages = {(method, path): (200, {"status": "success"})}
    async with AsyncExitStack() as stack:
        house = await two(stack, {}, page, ollama=("b",))
        assert (await house.ask(method, path, body))[:2] == (200, "b")
        assert house.engines["a"].asked == []


async def test_21_what_nobody_holds_is_deleted_nowhere_in_the_engines_own_words() -> None:
    async with AsyncExitStack() as stack:
        house = await two(stack, {}, ollama=("a",))
        house.engines["a"].pages[("DELETE", "/api/delete")] = (
            404,
            {"error": "model 'x' not found"},
        )
        status, _, said = await house.ask("DELETE", "/api/delete", {"model": "x"})
        assert (status, said) == (404, {"error": "model 'x' not found"})
        replicas = [one for node in house.house.snapshot().nodes for one in node.replicas]
        assert [(one.unproven, one.failed) for one in replicas] == [(False, 0)]


async def test_21_a_pull_takes_no_slot_and_shows_its_progress() -> None:
    """Nor is it behind a generation, nor a generation behind it."""
    async with AsyncExitStack() as stack:
        house = await two(stack, {}, ollama=("a",))
        engine = house.engines["a"]
        progress, line = event({"status": "pulling", "completed": 1}), event({"x": 1})
        engine.pages[("POST", "/api/pull")] = (200, progress)
        engine.pages[("POST", "/api/generate")] = (200, line)
        engine.held.clear()
        async with asyncio.TaskGroup() as tasks:
            asked = house.house.client.post("/api/pull", json={"model": "new"})
            async with asked as pulling:
                assert await pulling.content.readexactly(len(progress)) == progress
                snapshot = house.house.snapshot()
                assert [r.in_flight for node in snapshot.nodes for r in node.replicas] == [0]
                body = {"model": "m", "prompt": "x"}
                working = tasks.create_task(house.ask("POST", "/api/generate", body))
                await house.house.until(lambda: "POST /api/generate" in engine.asked)
                engine.pages[("POST", "/api/show")] = (200, {"details": {}})
                assert (await house.ask("POST", "/api/show", {"model": "m"}))[0] == 200
                assert not working.done()
                engine.held.set()
                assert await pulling.content.read() == b""
            assert (await working)[0] == 200
        await house.house.quiet()
        house.house.assert_books_are_clean()


ONCE: list[tuple[str, Any]] = [
    ("/v1/files", {}),
    ("/v1/batches", {}),
    ("/tools", {"tool": "run"}),
    ("/api/pull", {"model": "new"}),
]


@pytest.mark.parametrize("status", [0, 500, 502])
@pytest.mark.parametrize(("path", "body"), ONCE)
async def test_09_what_makes_or_changes_something_is_done_once(
    path: str, body: Any, status: int
) -> None:
    """When its connection breaks nobody knows whether it was done; a status of 0 is a reset."""
    fails: Pages = {("POST", path): (status, {"error": "x"})}
    async with AsyncExitStack() as stack:
        ollama = ("a",) if path.startswith("/api/") else ()
        house = await two(stack, fails, dict(fails), ollama=ollama)
        # An idle connection that breaks is not asked a second time either.
        assert (await house.ask("GET", "/v1/nothing"))[0] == 404
        got, _, said = await house.ask("POST", path, body)
        assert got == (status or 502)
        assert ("whether it was done there is not known" in str(said)) is (status == 0)
        started = sum(one.asked.count(f"POST {path}") for one in house.engines.values())
        assert started == 1
        await house.house.quiet()
        house.house.assert_books_are_clean()


async def test_09_what_only_asks_is_asked_of_the_next_node() -> None:
    fails: Pages = {("POST", "/tokenize"): (0, {})}
    async with AsyncExitStack() as stack:
        house = await two(stack, fails, dict(fails))
        assert (await house.ask("POST", "/tokenize", {}))[0] == 502
        assert all("POST /tokenize" in one.asked for one in house.engines.values())


async def test_21_a_list_that_is_to_be_read_anew_is_its_engines_own() -> None:
    """llama.cpp's `/models?reload=1`: without the query the house answers from memory."""
    page: Pages = {("GET", "/models"): (200, {"data": [{"id": "fresh"}]})}
    async with AsyncExitStack() as stack:
        house = await two(stack, page)
        said = (await house.ask("GET", "/models"))[2]
        assert [each["id"] for each in said["data"]] == ["m"]
        assert await house.ask("GET", "/models?reload=1") == (200, "a", page["GET", "/models"][1])
    async with AsyncExitStack() as stack:
        house = await two(stack, page, dict(page))
        assert (await house.ask("GET", "/models?reload=1"))[0] == 400
        assert (await house.ask("GET", "/models?reload=1", x_pair_node="b"))[:2] == (200, "b")
