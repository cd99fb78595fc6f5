"""Items 21 and 22: every path of every kind of engine, and the lists in all their shapes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from yarl import URL

from pair.agent.service import Node
from pair.bench.echo_engine.settings import EchoModel, PersonaName
from pair.core.names import NodeId
from pair.settings import FixedNode, NamedEngine, NodeSettings, Settings
from tests.support.chain import chain
from tests.support.house import FAST, house
from tests.transparency.scripted_engine import Pages, scripted
from tests.transparency.scripted_house import two

NAMED = {"model": "m"}

FORWARDED: list[tuple[str, str, Any]] = [
    ("POST", "/v1/chat/completions", NAMED),
    ("POST", "/v1/completions", NAMED),
    ("POST", "/v1/responses", NAMED),
    ("POST", "/v1/responses/compact", NAMED),
    ("POST", "/v1/messages", NAMED),
    ("POST", "/v1/messages/count_tokens", NAMED),
    ("POST", "/v1/embeddings", NAMED),
    ("POST", "/v1/rerank", NAMED),
    ("POST", "/v2/rerank", NAMED),
    ("POST", "/v1/score", NAMED),
    ("POST", "/v1/audio/speech", NAMED),
    ("POST", "/v1/images/generations", NAMED),
    ("POST", "/v1/moderations", NAMED),
    ("POST", "/v1/files", {}),
    ("POST", "/v1/batches", {}),
    ("POST", "/pooling", NAMED),
    ("POST", "/classify", NAMED),
    ("POST", "/predict", {}),
    ("POST", "/tokenize", NAMED),
    ("POST", "/generate", NAMED),
    ("POST", "/v1beta/models/m:generateContent", {}),
    ("POST", "/api/show", NAMED),
    ("POST", "/api/embed", NAMED),
    ("POST", "/api/generate", NAMED),
    ("GET", "/api/version", None),
    ("GET", "/version", None),
    ("GET", "/props", None),
    ("GET", "/tools", None),
    ("GET", "/ping", None),
    ("PUT", "/anything/at/all", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), FORWARDED)
async def test_21_every_path_is_forwarded_and_counts(method: str, path: str, body: Any) -> None:
    """It reaches the engine that knows it, though another one may have been asked before, and its
    ticket is in the books.
    """
    page: Pages = {(method, path): (200, {"it": "is"})}
    async with AsyncExitStack() as stack:
        built = await two(stack, page, dict(page))
        status, node, said = await built.ask(method, path, body)
        assert (status, said) == (200, {"it": "is"})
        assert node in built.engines
        await built.house.quiet()
        assert built.house.snapshot().opened == 1
        built.house.assert_books_are_clean()


@pytest.mark.parametrize(
    "path",
    [
        "/pooling",
        "/score",
        "/classify",
        "/v2/embed",
        "/v2/rerank",
        "/inference/v1/generate",
        "/generative_scoring",
        "/vertex_generate",
        "/v1/chat/completions/batch",
    ],
)
async def test_21_a_generation_is_never_forwarded_without_a_slot(path: str) -> None:
    """Though it names no model; vLLM and SGLang need none."""
    page: Pages = {("POST", path): (200, {})}
    async with AsyncExitStack() as stack:
        built = await two(stack, page, dict(page))
        status, _, said = await built.ask("POST", path, {})
        assert (status, said["error"]["code"]) == (400, "model_required")
        assert [engine.asked for engine in built.engines.values()] == [[], []]
        engine = built.engines["a"]
        engine.pages[("POST", path)] = (200, b"data: 1")
        engine.held.clear()
        async with built.house.client.post(path, json=NAMED, headers={"x-pair-node": "a"}):
            assert built.house.snapshot().in_flight == 1
            engine.held.set()


async def test_21_what_no_engine_is_known_to_generate_for_needs_no_model_at_a_node_either() -> None:
    """It gets the engine's own word, not the node's wish for a model."""
    two_models = replace(FAST, models=(EchoModel("one"), EchoModel("two")))
    async with chain(two_models) as built:
        for path, status in (("/predict", 404), ("/pooling", 400)):
            async with built.house.client.post(path, json={}) as answer:
                assert answer.status == status


async def test_21_a_path_that_one_engine_of_a_node_lacks_is_asked_of_its_next() -> None:
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(scripted(model)) for model in ("m", "n")]
        mine = NodeSettings(
            listen="127.0.0.1:0",
            engines=tuple(NamedEngine(engine.url) for engine in engines),
            find_engines=False,
        )
        node = Node(
            replace(Settings(), node=mine), node_id=NodeId("id"), name="node", version="test"
        )
        await stack.enter_async_context(node)
        named = (FixedNode(f"http://{node.address}"),)
        built = await stack.enter_async_context(house(settings=replace(Settings(), nodes=named)))
        await built.until(lambda: len(built.proxy.scheduler.fleet.names()) == len(engines))
        for number, engine in enumerate(engines):
            engine.pages[("POST", f"/only/{number}")] = (200, {})
            async with built.client.post(f"/only/{number}", json={}) as answer:
                assert answer.status == 200


async def test_21_a_path_that_one_engine_lacks_is_asked_of_the_next() -> None:
    async with AsyncExitStack() as stack:
        built = await two(stack, {}, {})
        for knowing in ("a", "b"):
            page = ("POST", f"/only/{knowing}")
            built.engines[knowing].pages[page] = (200, {})
            assert (await built.ask("POST", f"/only/{knowing}", {}))[:2] == (200, knowing)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1/images/edits",
        "/v1/images/variations",
    ],
)
async def test_21_a_form_names_its_model_after_the_file(path: str) -> None:
    async with AsyncExitStack() as stack:
        built = await two(stack, {("POST", path): (200, {"text": "hm"})})
        form = aiohttp.FormData()
        form.add_field("file", b"\x00RIFF" * 100, filename="model", content_type="audio/wav")
        form.add_field("model", "m")
        async with built.house.client.post(path, data=form) as answer:
            assert (answer.status, await answer.json()) == (200, {"text": "hm"})
        form = aiohttp.FormData()
        form.add_field("file", b"\x00RIFF" * 100, filename="x.wav", content_type="audio/wav")
        form.add_field("model", "gone")
        async with built.house.client.post(path, data=form) as answer:
            assert (await answer.json())["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("path", ["/", "/v1/models", "/api/tags", "/api/ps", "/healthz", "/health"])
async def test_22_what_comes_from_memory_has_a_head_of_its_own(path: str) -> None:
    async with house(FAST) as built:
        async with built.client.get(path) as answer:
            whole = await answer.read()
        async with built.client.head(path) as answer:
            assert (answer.status, await answer.read()) == (200, b"")
            assert int(answer.headers["content-length"]) == len(whole)
        assert built.snapshot().opened == 0


@pytest.mark.parametrize("path", ["/favicon.ico", "/.well-known/appspecific/x.json", "/robots.txt"])
async def test_21_what_browsers_ask_of_everybody_reaches_no_engine(path: str) -> None:
    async with house(FAST) as built:
        async with built.client.get(path) as answer:
            assert answer.status == 404
        assert built.snapshot().opened == 0


async def test_21_what_is_loaded_is_told_over_the_whole_house() -> None:
    """From memory, with each node's name, and without a word of the engines that do not tell."""
    async with AsyncExitStack() as stack:
        built = await two(stack, {}, {}, ollama=("a", "b"))
        _, _, said = await built.ask("GET", "/api/ps")
        shown = [(entry["model"], entry["node"]) for entry in said["models"]]
        assert shown == [("m", "a"), ("m", "b")]
        assert all(len(entry["digest"]) == 64 for entry in said["models"])
        assert built.house.snapshot().opened == 0


@pytest.mark.parametrize(
    ("persona", "second_list", "lmstudio"),
    [("llamacpp", True, False), ("ollama", False, False), ("lmstudio", False, True)],
)
async def test_22_the_lists_are_those_of_the_engines_in_the_house(
    persona: PersonaName, second_list: bool, lmstudio: bool
) -> None:
    """LM Studio's only where there is one, since clients take them for its mark; llama.cpp's second
    list where its clients are.
    """
    async with house(replace(FAST, persona=persona)) as built:
        async with built.client.get("/v1/models") as answer:
            said = await answer.json()
        assert [entry["id"] for entry in said["data"]] == ["echo"]
        assert [entry["name"] for entry in said.get("models", ())] == ["echo"] * second_list
        for path, field, key in (
            ("/api/v0/models", "data", "id"),
            ("/api/v1/models", "models", "key"),
        ):
            async with built.client.get(path) as answer:
                assert (answer.status == 200) is lmstudio
                if lmstudio:
                    assert [entry[key] for entry in (await answer.json())[field]] == ["echo"]


async def test_22_a_model_with_slashes_is_asked_for_by_itself_plain_or_encoded() -> None:
    async with house(replace(FAST, models=(EchoModel("org/m:8b"),))) as built:
        for written in ("org/m:8b", "org%2Fm%3A8b", "org%2fm:8b"):
            url = URL(f"/v1/models/{written}", encoded=True)
            async with built.client.get(url) as answer:
                assert (answer.status, (await answer.json())["id"]) == (200, "org/m:8b")
