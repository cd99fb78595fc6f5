from __future__ import annotations

from typing import get_args

import pytest

from pair.bench.echo_engine.personas import persona
from pair.bench.echo_engine.settings import PersonaName
from tests.bench.echo_engine.calling import engine_and_client, settings

NAMES: tuple[PersonaName, ...] = get_args(PersonaName)
# By these a kind is told from the others: no second kind answers all of its own.
MARKS: dict[PersonaName, list[str]] = {
    "llamacpp": ["/props", "/slots"],
    "ollama": ["/api/version", "/api/tags", "/api/ps"],
    "lmstudio": ["/api/v0/models"],
    "vllm": ["/version"],
    "sglang": ["/get_model_info", "/get_server_info"],
    "generic": [],
}


def paths(name: PersonaName) -> set[tuple[str, str]]:
    work = {("POST", path) for path in persona(name).work}
    return work | set(persona(name).status)


@pytest.mark.parametrize("name", NAMES)
async def test_each_kind_answers_its_own_paths_and_no_others(name: PersonaName) -> None:
    everything = set().union(*(paths(other) for other in NAMES)) | {("GET", "/nowhere")}
    unknown = persona(name).unknown_path
    async with engine_and_client(settings(persona=name)) as client:
        for method, path in sorted(everything - paths(name)):
            answer = await client.ask(method, path)
            assert (answer.status, answer.body) == (unknown.status, unknown.body), path
        for method, path in sorted(paths(name)):
            # An empty body is a refusal where work is asked for, but one of the path's own.
            answer = await client.ask(method, path)
            assert answer.body != unknown.body, path


def test_the_marks_of_a_kind_are_its_own() -> None:
    for name, marks in MARKS.items():
        for path in marks:
            assert [other for other in NAMES if ("GET", path) in persona(other).status] == [name]


async def test_every_kind_speaks_openai_with_its_own_headers() -> None:
    seen = {}
    for name in NAMES:
        async with engine_and_client(settings(persona=name)) as client:
            answer = await client.chat()
        assert answer.json["choices"][0]["message"]["content"] == "hello there hell"
        seen[name] = (answer.headers.get("Server"), answer.headers.get("X-Powered-By"))
    assert seen["llamacpp"] == ("llama.cpp", None)
    assert seen["ollama"] == (None, None)
    assert seen["lmstudio"] == (None, "Express")
    assert seen["vllm"] == seen["sglang"] == ("uvicorn", None)


async def test_an_unknown_path_of_lmstudio_looks_like_success() -> None:
    async with engine_and_client(settings(persona="lmstudio")) as client:
        answer = await client.get("/api/tags")
    assert answer.status == 200
    assert "error" in answer.json
