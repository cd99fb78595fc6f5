"""Answers of upstreams, wherever their bytes are cut, and what is no answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.errors import GarbledAnswer, LostUpstream, NodeFault
from pair.relay.heads import AnswerHead, Header
from pair.relay.upstream_answer import READ_AHEAD_BYTES, UpstreamAnswer
from tests.relay.wires import chunked, within

LIMIT_BYTES = 2000


@dataclass
class Line:
    """A connection that an answer has to itself."""

    throttled: list[bool] = field(default_factory=list)
    given_back: list[bool] = field(default_factory=list)

    def throttle(self, paused: bool) -> None:
        """Part of `Line`."""
        self.throttled.append(paused)

    def give_back(self, *, reusable: bool) -> None:
        """Part of `Line`."""
        self.given_back.append(reusable)

    def send(self, piece: bytes) -> None:
        """Part of `Line`, after a switch: there is none here."""

    def end_sending(self) -> None:
        """The same."""

    def close(self) -> None:
        """The same."""


@dataclass
class Sink:
    """Keeps what it gets."""

    body: bytes = b""
    wholes: int = 0
    faults: list[NodeFault] = field(default_factory=list)

    def take(self, piece: bytes, *, whole: bool) -> None:
        """Part of `Sink`."""
        assert piece or whole
        self.body += piece
        self.wholes += whole

    def lost(self, fault: NodeFault) -> None:
        """Part of `Sink`."""
        self.faults.append(fault)


@dataclass
class Told:
    """What an answer came to."""

    head: AnswerHead | None
    body: bytes
    wholes: int
    trailers: list[Header]
    fault: type[NodeFault] | None
    reusable: bool


def told(*pieces: bytes, bodyless: bool = False, close: bool = False) -> Told:
    """Feed these pieces, and close in order after them or not."""
    line, sink = Line(), Sink()
    answer = UpstreamAnswer(
        line, name="up", reused=True, head_limit_bytes=LIMIT_BYTES, bodyless=bodyless
    )
    answer.attach(sink)
    for piece in pieces:
        answer.feed(piece)
    if close:
        answer.ended(clean=True, how="closed the connection")
    assert len(sink.faults) <= 1
    assert answer.whole == (sink.wholes == 1)
    answer.release()
    fault = type(sink.faults[0]) if sink.faults else None
    return Told(
        answer.head, sink.body, sink.wholes, answer.trailers, fault, line.given_back == [True]
    )


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED_OK = b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


def test_a_head_is_kept_as_it_came() -> None:
    got = told(OK + b"Set-Cookie: a\r\nset-cookie: b\r\nContent-Length: 2\r\n\r\n{}")
    assert got.head is not None
    assert (got.head.status, got.head.reason, got.head.minor_version) == (200, b"OK", 1)
    assert got.head.headers[:2] == [(b"Set-Cookie", b"a"), (b"set-cookie", b"b")]
    assert (got.head.first(b"set-cookie"), got.head.content_length) == (b"a", 2)
    assert (got.body, got.reusable) == (b"{}", True)


@pytest.mark.parametrize(
    ("raw", "bodyless", "reusable"),
    [
        (OK + b"Content-Length: 9\r\n\r\n", True, True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", True, True),
        (OK + b"\r\n", True, False),
        (OK + b"Content-Length: 1\r\n\r\nx", True, False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False, True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", False, True),
        (OK + b"Content-Length: 0\r\n\r\n", False, True),
        (OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n", False, False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False, False),
        (OK + b"Content-Length: 0\r\n\r\nunasked", False, False),
        (OK + b"Content-Length: 0\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n", False, False),
        (OK + b"Connection: close\r\nContent-Length: 0\r\n\r\nunasked", False, False),
    ],
)
def test_when_an_answer_without_body_ends_and_whether_the_connection_stays(
    raw: bytes, bodyless: bool, reusable: bool
) -> None:
    for pieces in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
        got = told(*pieces, bodyless=bodyless)
        assert (got.body, got.wholes, got.fault, got.reusable) == (b"", 1, None, reusable)


@pytest.mark.parametrize("first", [b"Content-Length: 2\r\n\r\nok", CHUNKED_OK])
@pytest.mark.parametrize("second", [b"Content-Length: 5\r\n\r\nextra", CHUNKED_OK])
def test_a_second_answer_goes_nowhere(first: bytes, second: bytes) -> None:
    """One that comes unasked, in one read with the first or after it, is not the client's."""
    raw = OK + first + OK + second
    for pieces in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
        got = told(*pieces)
        assert (got.body, got.wholes, got.fault, got.reusable) == (b"ok", 1, None, False)
        assert got.trailers == []


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n"[:5] + b"x",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        OK + b"Content-Length: " + b"0" * 1000 + b"1\r\n\r\nx",
        OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\nx",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc",
        OK + b"X: " + b"a" * LIMIT_BYTES,
        b"HTTP/1.1 100 Continue\r\n\r\n" * LIMIT_BYTES,
        b"HTTP/1.1 199 X\r\n" + CHUNKED_OK + OK + b"Content-Length: 2\r\n\r\nok",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 2 * LIMIT_BYTES,
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * LIMIT_BYTES,
    ],
)
def test_what_is_no_answer_is_garbled(raw: bytes) -> None:
    for step in (1, 500):
        got = told(*[raw[at : at + step] for at in range(0, len(raw), step)], close=True)
        assert (got.fault, got.wholes, got.reusable) == (GarbledAnswer, 0, False)


def head_of(size_bytes: int) -> bytes:
    """A whole head of that size, of an answer with a body of two bytes."""
    start, end = OK + b"X: ", b"\r\nContent-Length: 2\r\n\r\n"
    return start + b"a" * (size_bytes - len(start + end)) + end


@pytest.mark.parametrize("step", [1, 500, 700, 100_000])
@pytest.mark.parametrize("lead", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_the_limit_of_a_head_holds_wherever_its_bytes_are_cut(step: int, lead: bytes) -> None:
    for above, outcome in ((0, (None, b"hi")), (1, (GarbledAnswer, b""))):
        raw = lead + head_of(LIMIT_BYTES - len(lead) + above) + b"hi"
        got = told(*[raw[at : at + step] for at in range(0, len(raw), step)])
        assert (got.fault, got.body) == outcome


def test_a_long_body_in_one_read_with_its_head_is_none_of_it() -> None:
    body = bytes(3 * LIMIT_BYTES)
    got = told(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert (got.fault, got.body, got.reusable) == (None, body, True)


@pytest.mark.parametrize(
    ("raw", "answered"),
    [
        (b"", False),
        (b"H", True),
        (OK + b"Content-Length: 2\r\n\r\nx", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n", True),
    ],
)
def test_a_connection_that_ends_too_early_is_lost(raw: bytes, answered: bool) -> None:
    sink = Sink()
    answer = UpstreamAnswer(
        Line(), name="up", reused=True, head_limit_bytes=LIMIT_BYTES, bodyless=False
    )
    answer.attach(sink)
    if raw:
        answer.feed(raw)
    answer.ended(clean=True, how="closed the connection")
    (fault,) = sink.faults
    assert isinstance(fault, LostUpstream)
    assert (fault.reused, fault.answered) == (True, answered)
    assert str(fault).startswith("up closed the connection ")


def test_the_end_of_the_connection_is_the_end_of_a_body_only_if_it_is_orderly() -> None:
    assert told(OK + b"\r\nabc", close=True).wholes == 1
    assert told(OK + b"\r\nabc").wholes == 0
    sink = Sink()
    answer = UpstreamAnswer(Line(), name="up", reused=False, head_limit_bytes=999, bodyless=False)
    answer.attach(sink)
    answer.feed(OK + b"\r\nabc")
    answer.ended(clean=False, how="reset the connection")
    assert (sink.wholes, [type(fault) for fault in sink.faults]) == (0, [LostUpstream])


async def test_a_body_that_nobody_wants_yet_is_bounded_and_stays() -> None:
    line, sink = Line(), Sink()
    answer = UpstreamAnswer(line, name="up", reused=False, head_limit_bytes=999, bodyless=False)
    answer.feed(OK + b"Content-Length: 500000\r\n\r\n" + bytes(READ_AHEAD_BYTES))
    assert (await answer.wait_for_head()).status == 200
    assert line.throttled == []
    answer.feed(b"x")
    assert line.throttled == [True]
    assert await answer.read_all(100) == bytes(100)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(answer.read_all(READ_AHEAD_BYTES + 3))
        await asyncio.sleep(0)
        assert line.throttled[-1] is False
        answer.feed(b"yz!")
    assert reading.result()[-4:] == b"\0xyz"
    answer.attach(sink)
    assert sink.body == bytes(READ_AHEAD_BYTES) + b"xyz!"


async def test_a_short_body_is_read_whole_and_then_still_there() -> None:
    answer = UpstreamAnswer(Line(), name="up", reused=False, head_limit_bytes=999, bodyless=False)
    answer.feed(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbu")
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(answer.read_all(1000))
        await asyncio.sleep(0)
        answer.feed(b"sy")
    assert reading.result() == b"busy"
    sink = Sink()
    answer.attach(sink)
    assert (sink.body, sink.wholes) == (b"busy", 1)


async def test_a_reader_is_told_of_the_loss() -> None:
    answer = UpstreamAnswer(Line(), name="up", reused=False, head_limit_bytes=999, bodyless=False)
    answer.feed(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbu")
    asyncio.get_running_loop().call_soon(
        lambda: answer.ended(clean=True, how="closed the connection")
    )
    with pytest.raises(LostUpstream, match="up closed the connection in the middle"):
        await within(answer.read_all(1000))


def test_an_old_answer_can_close_nothing() -> None:
    line = Line()
    answer = UpstreamAnswer(line, name="up", reused=False, head_limit_bytes=999, bodyless=False)
    answer.feed(OK + b"Content-Length: 0\r\n\r\n")
    answer.release()
    answer.abort()
    answer.release()
    answer.throttle(True)
    assert (line.given_back, line.throttled) == ([True], [])


@st.composite
def valid_answer(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """An answer's bytes, its body, and whether its connection is closed at the end."""
    lead = draw(st.sampled_from([b"", b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"]))
    body = draw(st.binary(min_size=1, max_size=60))
    match draw(st.sampled_from(["length", "chunked", "close"])):
        case "length":
            return lead + OK + b"Content-Length: %d\r\n\r\n" % len(body) + body, body, False
        case "close":
            return lead + OK + b"X: y\r\n\r\n" + body, body, True
        case _:
            cut = draw(st.integers(1, len(body)))
            raw = chunked(*filter(None, (body[:cut], body[cut:])))
            raw = draw(st.sampled_from([raw, raw[:-2] + b"T: u\r\nV: w\r\n\r\n"]))
            return lead + OK + b"Transfer-Encoding: chunked\r\n\r\n" + raw, body, False


@given(answer=valid_answer(), cuts=st.lists(st.integers(0, 300)))
def test_an_answer_is_the_same_wherever_its_bytes_are_cut(
    answer: tuple[bytes, bytes, bool], cuts: list[int]
) -> None:
    raw, body, close = answer
    at = sorted({min(cut, len(raw)) for cut in cuts} | {len(raw)})
    pieces = [raw[start:end] for start, end in zip([0, *at], at, strict=False)]
    got = told(*filter(None, pieces), close=close)
    assert (got.body, got.wholes, got.fault) == (body, 1, None)
    assert got == told(raw, close=close)


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda tail: OK + tail))
def test_any_bytes_are_an_answer_or_a_fault_and_the_same_byte_by_byte(raw: bytes) -> None:
    whole = told(*filter(None, [raw]), close=True)
    split = told(*[raw[at : at + 1] for at in range(len(raw))], close=True)
    assert (whole.wholes, whole.fault) == (split.wholes, split.fault)
    if whole.fault is None:
        assert whole.body == split.body
