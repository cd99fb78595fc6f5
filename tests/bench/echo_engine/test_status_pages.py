from __future__ import annotations

import asyncio

from pair.bench.echo_engine import EchoModel
from tests.bench.echo_engine.calling import LIMIT_S, Client, engine_and_client, settings

MODELS = (EchoModel("echo:7b", ("gpt-4o",)), EchoModel("other"))


async def metrics(client: Client) -> dict[str, float]:
    """The samples of /metrics, labels dropped."""
    lines = (await client.get("/metrics")).body.decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.partition("{")[0]: float(value) for name, value in samples}


async def test_llamacpp_tells_its_slots() -> None:
    given = settings(slots=2, context_tokens=512, decode_rate_tokens_per_s=20)
    async with engine_and_client(given) as client:
        props = (await client.get("/props")).json
        assert props["total_slots"] == 2
        assert props["default_generation_settings"]["n_ctx"] == 512
        assert (await client.get("/health")).json == {"status": "ok"}
        journal = client.engine.journal
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(client.chat(tokens=6))
            await journal.until(lambda: journal.counters.waiting == 1, LIMIT_S)
            slots = (await client.get("/slots")).json
            assert [(slot["id"], slot["is_processing"]) for slot in slots] == [(0, True), (1, True)]
            during = await metrics(client)
        after = await metrics(client)
    assert during["llamacpp:requests_processing"] == 2
    assert during["llamacpp:requests_deferred"] == 1
    assert after["llamacpp:requests_processing"] == 0
    assert after["llamacpp:tokens_predicted_total"] == 18
    assert after["llamacpp:tokens_predicted_seconds_total"] >= 0.85
    read = after["llamacpp:prompt_tokens_total"] + after["llamacpp:prompt_tokens_cached_total"]
    assert read == sum(entry.prompt_tokens for entry in journal.entries)


async def test_llamacpp_lists_aliases_beside_the_name() -> None:
    async with engine_and_client(settings(models=MODELS, context_tokens=512)) as client:
        listed = (await client.get("/v1/models")).json
        assert (await client.get("/models")).json == listed
    assert [row["id"] for row in listed["data"]] == ["echo:7b", "other"]
    assert listed["data"][0]["aliases"] == ["echo:7b", "gpt-4o"]
    assert listed["data"][0]["meta"] == {"n_ctx": 512}


async def test_ollama_lists_names_and_what_is_loaded() -> None:
    given = settings(persona="ollama", models=MODELS, context_tokens=512)
    async with engine_and_client(given) as client:
        assert (await client.get("/")).body == b"Ollama is running"
        assert (await client.ask("HEAD", "/")).status == 200
        assert (await client.get("/api/version")).json == {"version": "0.0.0-echo"}
        tags = (await client.get("/api/tags")).json["models"]
        loaded = (await client.get("/api/ps")).json["models"]
        shown = await client.post("/api/show", {"model": "gpt-4o"})
        unknown = await client.post("/api/show", {"model": "none"})
        listed = (await client.get("/v1/models")).json["data"]
        single = await client.get("/v1/models/gpt-4o")
        missing = await client.get("/v1/models/none")
    assert [row["name"] for row in tags] == ["echo:7b", "gpt-4o", "other"]
    assert [row["context_length"] for row in loaded] == [512, 512]
    assert shown.json["model_info"]["echo.context_length"] == 512
    assert (unknown.status, unknown.json) == (404, {"error": "model 'none' not found"})
    assert [row["id"] for row in listed] == ["echo:7b", "gpt-4o", "other"]
    assert single.json["id"] == "gpt-4o"
    assert missing.status == 404


async def test_lmstudio_says_what_is_loaded() -> None:
    given = settings(persona="lmstudio", models=MODELS, load_time_s=3600)
    async with engine_and_client(given) as client:
        rows = (await client.get("/api/v0/models")).json["data"]
    assert [(row["id"], row["state"]) for row in rows] == [
        ("echo:7b", "not-loaded"),
        ("gpt-4o", "not-loaded"),
        ("other", "not-loaded"),
    ]


async def metrics_under_load(client: Client) -> tuple[dict[str, float], dict[str, float]]:
    """The metrics while two requests are worked on and one waits, and once all is done."""
    counters = client.engine.journal.counters
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(client.chat(tokens=6))
        await client.engine.journal.until(lambda: counters.waiting == 1, LIMIT_S)
        during = await metrics(client)
    return during, await metrics(client)


async def test_vllm_and_sglang_tell_their_load() -> None:
    for persona, running, waiting in (
        ("vllm", "vllm:num_requests_running", "vllm:num_requests_waiting"),
        ("sglang", "sglang:num_running_reqs", "sglang:num_queue_reqs"),
    ):
        given = settings(persona=persona, slots=2, context_tokens=512, decode_rate_tokens_per_s=20)
        async with engine_and_client(given) as client:
            assert (await client.get("/health")).body == b""
            listed = (await client.get("/v1/models")).json["data"]
            assert [row["max_model_len"] for row in listed] == [512]
            during, after = await metrics_under_load(client)
        assert (during[running], during[waiting]) == (2, 1)
        assert (after[running], after[waiting]) == (0, 0)


async def test_versions_and_settings() -> None:
    async with engine_and_client(settings(persona="vllm")) as client:
        assert (await client.get("/version")).json == {"version": "0.0.0-echo"}
    async with engine_and_client(settings(persona="sglang", slots=5)) as client:
        assert (await client.get("/get_model_info")).json["model_path"] == "echo"
        assert (await client.get("/get_server_info")).json["max_running_requests"] == 5


async def test_tokens_are_counted_without_work() -> None:
    asked = {"model": "echo", "messages": [{"role": "user", "content": "say it"}]}
    async with engine_and_client() as client:
        counted = await client.post("/v1/messages/count_tokens", asked)
        assert counted.json == {"input_tokens": 8}
        assert client.engine.journal.counters.started == 0
