"""Signs of life for those who wait, and stalls, by a clock that the test sets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.proxy.silence import Silence, Silences
from pair.relay.body_budget import BodyBudget
from pair.relay.exchange import Exchange, Receiver
from pair.relay.heads import AnswerHead, Header, RequestHead, first_values
from pair.relay.request_body import RequestBody
from pair.settings import StreamSettings
from pair.wire.open_streams import OpenStream, open_stream

LIMITS = StreamSettings(keep_alive_after_s=60.0, keep_alive_every_s=10.0, stall_limit_s=120.0)
EVENTS = open_stream("/v1/chat/completions")


class Client:
    """The far end of an exchange."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.got.append(piece)

    def answered(self, *, keep: bool) -> None:
        pass

    def cut(self, *, flush: bool) -> None:
        pass

    def switch(self, receiver: Receiver) -> None:
        pass

    def pause_client(self, paused: bool) -> None:
        pass

    def end_sending(self) -> None:
        pass


def asked(client: Client, minor_version: int = 1) -> Exchange:
    head = RequestHead(
        b"POST", b"/v1/chat/completions", minor_version, [], {}, True, 2, False, False, False
    )
    body = RequestBody(0, BodyBudget(1000), lambda: None)
    body.receive([], whole=True)
    return Exchange(head, body, client, "test", 0.0)


def answer(status: int, content_type: bytes, *more: Header) -> AnswerHead:
    headers = [(b"Content-Type", content_type), *more]
    return AnswerHead(status, b"", 1, headers, first_values(headers), None, True, True)


def silence(
    exchange: Exchange, form: OpenStream | None = EVENTS, limits: StreamSettings = LIMITS
) -> Silence:
    return Silence(limits, exchange, form, (), 0.0)


def test_a_waiting_stream_is_opened_after_the_delay_and_kept_alive() -> None:
    client = Client()
    exchange = asked(client)
    watched = silence(exchange)
    for now in range(59):
        watched.sweep(float(now))
    assert client.got == []
    for now in range(60, 100):
        watched.sweep(float(now))
    assert client.got[0].startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
    assert [piece.count(b": waiting") for piece in client.got] == [1] * 4
    assert not exchange.begun
    exchange.begin(answer(200, b"text/event-stream"))
    exchange.send(b"data: 1\n\n")
    watched.heard = True
    watched.sweep(200.0)
    assert len(client.got) == 5
    assert b"HTTP" not in client.got[-1]


@pytest.mark.parametrize("why", ["no stream", "switched off", "HTTP/1.0", "does not read"])
def test_no_stream_is_opened_for_whom_it_would_be_wrong(why: str) -> None:
    client = Client()
    exchange = asked(client, 0 if why == "HTTP/1.0" else 1)
    limits = replace(LIMITS, keep_alive_after_s=0.0) if why == "switched off" else LIMITS
    watched = silence(exchange, None if why == "no stream" else EVENTS, limits)
    exchange.throttle(why == "does not read")
    for now in range(0, 1000, 10):
        watched.sweep(float(now))
    assert client.got == []


@pytest.mark.parametrize(
    ("head", "joins"),
    [
        (answer(200, b"text/event-stream; charset=utf-8"), True),
        (answer(200, b"application/json"), False),
        (answer(400, b"text/event-stream"), False),
        (answer(200, b"text/event-stream", (b"Content-Encoding", b"gzip")), False),
        (answer(200, b"text/event-stream", (b"Content-Encoding", b"identity")), True),
    ],
)
def test_what_can_follow_a_head_of_ours(head: AnswerHead, joins: bool) -> None:
    client = Client()
    exchange = asked(client)
    watched = silence(exchange)
    assert watched.joins(head), "nothing has been sent, so its own head can go"
    watched.sweep(60.0)
    assert exchange.ahead == joins, "none of ours goes before an answer that cannot follow it"
    watched.begin_attempt()
    watched.sweep(61.0)
    assert exchange.ahead
    assert watched.joins(head) == joins


def test_a_stall_is_the_engines_silence_and_not_the_clients() -> None:
    exchange = asked(Client())
    watched = silence(exchange)
    stalls: list[float] = []
    watched.on_stall = stalls.append
    for now in range(50):
        watched.sweep(float(now))
    exchange.begin(answer(200, b"text/event-stream"))
    for now in range(50, 600):
        watched.heard = now < 100
        exchange.throttle(now >= 200)
        watched.sweep(float(now))
    assert stalls == [], "silent for 100 s, then the client did not read"
    exchange.throttle(False)
    for now in range(600, 721):
        watched.sweep(float(now))
    assert stalls[0] == 121.0


async def test_a_ticket_that_is_closed_is_looked_at_no_more() -> None:
    silences = Silences(replace(LIMITS, keep_alive_after_s=0.01))
    client = Client()
    silences.forget(silences.watch(asked(client), EVENTS, (), 0.0))
    assert client.got == []
