"""A handler that fails: what the client gets, and what the log may say."""

from __future__ import annotations

import logging
import re

import pytest

from pair.relay.exchange import Exchange
from pair.relay.front import Front
from pair.relay.heads import AnswerHead
from tests.relay.relays import FRONT_LIMITS
from tests.relay.wires import client

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("begun", [False, True])
async def test_a_handler_that_fails_is_told_in_one_line_without_what_it_held(
    begun: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(exchange: Exchange) -> None:
        if begun:
            exchange.begin(AnswerHead(200, b"OK", 1, [], {}, None, True, True))
            exchange.send(b"some")
        raise KeyError("the prompt")

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET)
        came = await wire.rest()
    if begun:
        assert came.endswith(b"4\r\nsome\r\n")
    else:
        assert came.startswith(b"HTTP/1.1 500 ")
    (record,) = [told for told in caplog.records if told.levelno >= logging.WARNING]
    assert re.fullmatch(
        r"serving 127.0.0.1:\d+ failed: KeyError at test_frontage.py:\d+",
        record.getMessage(),
    )
    assert record.exc_info is None
    caplog.clear()


async def test_a_handler_that_forgets_to_answer_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.read_body(10)

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET)
        assert (await wire.answer()).status == 500
    assert "without an answer" in caplog.text
    caplog.clear()
