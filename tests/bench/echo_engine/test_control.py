from __future__ import annotations

from tests.bench.echo_engine.calling import engine_and_client


async def test_the_journal_can_be_read_from_outside() -> None:
    async with engine_and_client() as client:
        await client.chat(headers={"x-request-id": "one", "Authorization": "Bearer secret"})
        await client.get("/health")
        told = await client.get("/echo/journal")
    assert told.json["counters"]["fates"] == {"done": 1}
    assert told.json["counters"]["requests_by_path"] == {"/v1/chat/completions": 1, "/health": 1}
    assert told.json["starts"] == {"one": 1}
    assert told.json["entries"][0]["output_tokens"] == 4
    assert b"secret" not in told.body


async def test_a_reset_forgets_the_journal_and_the_cache() -> None:
    async with engine_and_client() as client:
        await client.chat()
        assert (await client.chat()).json["timings"]["cache_n"] > 0
        assert (await client.post("/echo/reset")).status == 200
        assert (await client.get("/echo/journal")).json["entries"] == []
        assert (await client.chat()).json["timings"]["cache_n"] == 0


async def test_faults_are_set_from_outside() -> None:
    async with engine_and_client() as client:
        answer = await client.post("/echo/faults", ["503,first=1", {"kind": "status"}])
        assert answer.json == {"faults": 2}
        assert [(await client.chat()).status for _ in range(2)] == [503, 500]
        wrong = await client.post("/echo/faults", ["nope"])
        assert wrong.status == 400
        assert "nope" in wrong.json["error"]
        assert (await client.chat()).status == 500
        await client.post("/echo/faults", [])
        assert (await client.chat()).status == 200


async def test_other_control_paths_say_which_there_are() -> None:
    async with engine_and_client() as client:
        answer = await client.get("/echo/nothing")
    assert answer.status == 404
    assert "/echo/journal" in answer.json["error"]
