"""Item 21: what an engine keeps is asked for where it was made."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from pair.core.names import Phase
from pair.settings import ProbingSettings, ProxySettings, Settings
from tests.transparency.scripted_engine import Pages, event
from tests.transparency.scripted_house import two


def makes(path: str, made: Any) -> Pages:
    return {("POST", path): (200, made)}


RESPONSE = {"object": "response", "output": [{"id": "msg_1"}]}
STREAMED = event({"type": "response.created", "response": {"id": "resp_a"}}) + event({"n": 1})


@pytest.mark.parametrize("made", [{"id": "resp_a", **RESPONSE}, STREAMED])
async def test_21_a_response_is_continued_and_read_where_it_was_made(made: Any) -> None:
    """And nowhere else, whichever node would be next."""
    pages = makes("/v1/responses", made) | {
        ("GET", "/v1/responses/resp_a"): (200, RESPONSE),
        ("POST", "/v1/responses/resp_a/cancel"): (200, RESPONSE),
        ("DELETE", "/v1/responses/resp_a"): (200, RESPONSE),
    }
    async with AsyncExitStack() as stack:
        pair = await two(stack, pages, dict(pages))
        _, maker, _ = await pair.ask("POST", "/v1/responses", {"model": "m", "input": "x"})
        follow = {"model": "m", "input": "y", "previous_response_id": "resp_a"}
        for _ in range(3):
            assert (await pair.ask("POST", "/v1/responses", follow))[:2] == (200, maker)
        for method, path in list(pages)[1:]:
            assert (await pair.ask(method, path))[:2] == (200, maker), (method, path)
        assert not pair.engines[pair.other(maker)].asked
        await pair.house.quiet()
        pair.house.assert_books_are_clean()


@pytest.mark.parametrize(
    ("making", "made", "method", "path", "body"),
    [
        ("/v1/conversations", "conv_1", "GET", "/v1/conversations/conv_1", None),
        ("/v1/conversations", "conv_1", "POST", "/v1/conversations/conv_1/items", {}),
        ("/v1/conversations", "c", "POST", "/v1/responses", {"model": "m", "conversation": "c"}),
        (
            "/v1/conversations",
            "c",
            "POST",
            "/v1/responses",
            {"model": "m", "conversation": {"id": "c"}},
        ),
        ("/v1/files", "file-1", "GET", "/v1/files/file-1/content", None),
        ("/v1/files", "file-1", "DELETE", "/v1/files/file-1", None),
        ("/v1/files", "file-1", "POST", "/v1/batches", {"input_file_id": "file-1"}),
        ("/v1/batches", "batch_1", "POST", "/v1/batches/batch_1/cancel", {}),
        ("/v1/vector_stores", "vs_1", "POST", "/v1/vector_stores/vs_1/search", {}),
    ],
)
async def test_21_what_was_made_on_a_node_is_found_there(
    making: str, made: str, method: str, path: str, body: Any
) -> None:
    """Though another one has pages there, too, and comes first in the order of light requests."""
    pages = makes(making, {"object": "x", "id": made}) | {(method, path): (200, {"id": "new_1"})}
    async with AsyncExitStack() as stack:
        pair = await two(stack, pages, dict(pages))
        _, first, _ = await pair.ask("GET", "/v1/anything")
        second = pair.other(first) if first else "b"
        assert (await pair.ask("POST", making, {}, x_pair_node=second))[:2] == (200, second)
        assert (await pair.ask(method, path, body))[:2] == (200, second)
        contradicting = await pair.ask(method, path, body, x_pair_node=pair.other(second))
        assert contradicting[:2] == (200, pair.other(second))


async def test_21_a_download_is_watched_where_it_was_begun() -> None:
    """LM Studio's; its path looks like that of a model."""
    download, status = "/api/v1/models/download", "/api/v1/models/download/status/job_1"
    pages: Pages = {("POST", download): (200, {"job_id": "job_1"}), ("GET", status): (200, {})}
    async with AsyncExitStack() as stack:
        pair = await two(stack, pages, dict(pages))
        for node in ("a", "b"):
            assert (await pair.ask("POST", download, {"model": "x"}, x_pair_node=node))[0] == 200
            assert (await pair.ask("GET", status))[:2] == (200, node)


async def test_21_an_unknown_id_is_looked_for_on_each_node_once_and_then_known() -> None:
    found: Pages = {("GET", "/v1/files/file-9"): (200, {"id": "file-9"})}
    async with AsyncExitStack() as stack:
        pair = await two(stack, found, {})
        await pair.ask("GET", "/v1/files/file-9")
        pair.engines["a"].pages.update(pair.engines["b"].pages)
        for engine in pair.engines.values():
            engine.asked.clear()
        assert (await pair.ask("GET", "/v1/files/file-9"))[:2] == (200, "a")
        assert pair.engines["b"].asked == []


async def test_21_an_id_that_nobody_knows_gets_the_last_nodes_404() -> None:
    async with AsyncExitStack() as stack:
        pair = await two(stack, {}, {})
        status, node, said = await pair.ask("GET", "/v1/files/file-9")
        assert (status, said) == (404, {"detail": "Not Found"})
        assert node in pair.engines
        assert [engine.asked for engine in pair.engines.values()] == [["GET /v1/files/file-9"]] * 2
        await pair.house.quiet()
        pair.house.assert_books_are_clean()


async def test_21_of_many_ids_the_least_used_are_forgotten() -> None:
    """Then the request goes where any other would go."""
    settings = Settings(proxy=ProxySettings(kept_ids_limit=1))
    path = "/v1/files"
    async with AsyncExitStack() as stack:
        pair = await two(stack, {}, {}, settings=settings)
        for node in ("a", "b"):
            pair.engines[node].pages[("POST", path)] = (200, {"id": f"file-{node}"})
            await pair.ask("POST", path, {}, x_pair_node=node)
        for engine in pair.engines.values():
            engine.asked.clear()
        await pair.ask("GET", "/v1/files/file-a")
        assert all(engine.asked for engine in pair.engines.values())
        pair.engines["a"].asked.clear()
        await pair.ask("GET", "/v1/files/file-b")
        assert pair.engines["a"].asked == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/responses/resp_a", None),
        ("POST", "/v1/responses", {"model": "m", "previous_response_id": "resp_a"}),
    ],
)
async def test_21_when_the_only_node_that_knows_it_is_gone_the_error_says_so(
    method: str, path: str, body: Any
) -> None:
    probing = ProbingSettings(
        interval_s=0.05, suspect_interval_s=0.05, limit_s=0.5, misses_until_lost=1
    )
    async with AsyncExitStack() as stack:
        pair = await two(stack, {}, {}, settings=Settings(probing=probing))
        pair.engines["a"].pages[("POST", "/v1/responses")] = (200, {"id": "resp_a"})
        await pair.ask("POST", "/v1/responses", {"model": "m"}, x_pair_node="a")
        await pair.engines["a"].stop()
        nodes = pair.house.proxy.scheduler.membership.nodes
        (gone,) = [node for node in nodes.values() if node.name == "a"]
        await pair.house.until(lambda: gone.phase is Phase.LOST)
        status, _, said = await pair.ask(method, path, body)
        assert (status, said["error"]["code"]) == (503, "node_gone")
        assert "'resp_a'" in said["error"]["message"]
        assert pair.engines["b"].asked == []
