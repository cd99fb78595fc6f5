"""The one line that is logged of each request."""

from __future__ import annotations

import logging

import pytest

from pair.bench.echo_engine import EchoEngine, EchoSettings
from tests.agent.face import chat, chosen, face, local, of

CHAT = "/v1/chat/completions"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "pair.agent.visit"]


async def test_a_request_leaves_one_line_and_nothing_of_its_body(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with EchoEngine(EchoSettings(answer_tokens=2)) as engine, face(of(engine)) as node:
        headers = chosen() | {"authorization": "Bearer secret"}
        async with node.client.post(
            node.url + CHAT + "?key=secret", data=chat(), headers=headers
        ) as answer:
            size = len(await answer.read())
    (line,) = lines(caplog)
    assert line.startswith(
        f"POST /v1/chat/completions engine=llamacpp:1 model=echo status=200 bytes={size} took="
    )
    assert "client=127.0.0.1:" in line
    assert "How are you" not in line
    assert "secret" not in line


async def test_what_went_wrong_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "echo")) as node:
        async with node.client.post(node.url + CHAT, data=chat(), headers=chosen()):
            pass
        async with node.client.post(node.url + CHAT, data=chat("none")):
            pass
    broken, unknown = lines(caplog)
    assert "status=502" in broken
    assert "fault=" in broken
    assert "engine=- model=- status=404" in unknown


async def test_the_nodes_own_pages_leave_none(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with face() as node, node.client.get(node.url + "/pair/v1/report") as answer:
        assert answer.status == 200
    assert lines(caplog) == []
