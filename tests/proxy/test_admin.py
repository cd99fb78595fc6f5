"""The pages about pair itself, on their private socket."""

from __future__ import annotations

import asyncio
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pair.core.events import Closed, Event, NodeReported, NodeSighted, Opened
from pair.core.names import JobId, ModelName, NodeId, Outcome, TicketId
from pair.core.queue_depth import QueueDepth
from pair.core.scheduler import Scheduler
from pair.core.strategies import STRATEGIES
from pair.core.strategy import Strategy
from pair.core.ticket import Ticket
from pair.errors import UnusableAddress
from pair.proxy.admin import Admin
from pair.settings import Settings
from tests.core.hesitant import Hesitant
from tests.core.house import report


def feeding(scheduler: Scheduler) -> Callable[[Event], None]:
    """What a dispatcher does with an event, without performing the decisions."""

    def feed(event: Event) -> None:
        scheduler.handle(event, asyncio.get_running_loop().time())

    return feed


class Patient(Hesitant):
    """Leaves everybody waiting beside a free slot."""

    def declines(self, ticket: Ticket, now: float) -> bool:
        return True


class Pages:
    """An admin's socket and the scheduler behind it."""

    def __init__(self, scheduler: Scheduler, client: aiohttp.ClientSession) -> None:
        self.scheduler = scheduler
        self._client = client

    async def ask(
        self, path: str, method: str = "GET", body: bytes | None = None
    ) -> tuple[int, Any]:
        async with self._client.request(method, f"http://pair{path}", data=body) as answer:
            return answer.status, await answer.json()

    def call(self, number: int, job: str) -> None:
        """One call of a job, answered at once."""
        now = asyncio.get_running_loop().time()
        opened = Opened(TicketId(number), ModelName("m"), job=JobId(job))
        self.scheduler.handle(opened, now)
        self.scheduler.handle(Closed(TicketId(number), Outcome.ANSWERED), now)


@asynccontextmanager
async def pages(strategy: Strategy | None = None) -> AsyncIterator[Pages]:
    """The pages of a proxy with one node."""
    now = asyncio.get_running_loop().time()
    scheduler = Scheduler(Settings().limits(), strategy or QueueDepth(), now)
    scheduler.handle(NodeSighted(NodeId("a"), "a", ("http://a:1",)), now)
    scheduler.handle(NodeReported(NodeId("a"), report("a")), now)
    async with Admin(scheduler, feeding(scheduler), proxy_id="p-1") as admin:
        connector = aiohttp.UnixConnector(admin.address)
        async with aiohttp.ClientSession(connector=connector) as client:
            yield Pages(scheduler, client)


async def test_the_snapshot_is_the_schedulers_state_now() -> None:
    async with pages() as shown:
        status, snapshot = await shown.ask("/pair/v1/snapshot")
        assert (status, snapshot["id"], snapshot["tickets"]["opened"]) == (200, "p-1", 0)
        shown.call(1, "team")
        _, snapshot = await shown.ask("/pair/v1/snapshot")
        assert (snapshot["tickets"]["opened"], snapshot["tickets"]["answered"]) == (1, 1)


async def test_jobs_are_listed_without_calls_and_shown_one_by_one_with_them() -> None:
    async with pages() as shown:
        assert await shown.ask("/pair/v1/jobs") == (200, {"v": 1, "jobs": []})
        before = time.time()
        shown.call(1, "team/one")
        shown.call(2, "team two")
        _, listed = await shown.ask("/pair/v1/jobs")
        assert [job["id"] for job in listed["jobs"]] == ["team/one", "team two"]
        assert all("calls" not in job for job in listed["jobs"])
        for name, path in (("team/one", "team/one"), ("team two", "team%20two")):
            status, job = await shown.ask(f"/pair/v1/jobs/{path}")
            assert (status, job["id"], len(job["calls"])) == (200, name, 1)
            assert job["started_at"] == pytest.approx(before, abs=1.0), "Unix time"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/pair/v1/jobs/none", "no_such_job"),
        ("GET", "/pair/v1/nowhere", "no_such_path"),
        ("GET", "/pair/", "no_such_path"),
        ("POST", "/pair/v1/snapshot", "no_such_path"),
        ("POST", "/pair/v1/strategy", "no_such_path"),
        ("DELETE", "/pair/v1/jobs/none", "no_such_path"),
    ],
)
async def test_what_does_not_exist_is_said_in_the_shape_of_all_errors(
    method: str, path: str, code: str
) -> None:
    async with pages() as shown:
        status, body = await shown.ask(path, method)
        assert status == 404
        assert body["error"]["code"] == code
        assert set(body["error"]) == {"message", "type", "code", "param"}


async def test_who_waits_beside_a_free_slot_says_why() -> None:
    async with pages(Patient()) as shown:
        now = asyncio.get_running_loop().time()
        opened = Opened(TicketId(1), ModelName("m"), job=JobId("team"))
        shown.scheduler.handle(opened, now)
        _, job = await shown.ask("/pair/v1/jobs/team")
        (call,) = job["calls"]
        assert (call["node"], call["reason"]) == (None, "not now")
        # Another strategy takes the slot, and then the reason is its own.
        await shown.ask("/pair/v1/strategy", "PUT", b'{"strategy": "round-robin"}')
        _, job = await shown.ask("/pair/v1/jobs/team")
        (call,) = job["calls"]
        assert (call["node"], call["reason"]) == ("a", "its turn among 1 with a free slot")


async def test_the_strategy_is_shown_and_switched_for_all_and_for_one_model() -> None:
    async with pages() as shown:
        known = list(STRATEGIES)
        before = {"v": 1, "strategy": "queue-depth", "models": {}, "known": known}
        assert await shown.ask("/pair/v1/strategy") == (200, before)
        wish = b'{"strategy": "round-robin", "model": "m"}'
        after = before | {"models": {"m": "round-robin"}}
        assert await shown.ask("/pair/v1/strategy", "PUT", wish) == (200, after)
        await shown.ask("/pair/v1/strategy", "PUT", b'{"strategy": "round-robin"}')
        _, snapshot = await shown.ask("/pair/v1/snapshot")
        assert snapshot["strategy"] == "round-robin"
        assert shown.scheduler.matching.strategy.name == "round-robin"


async def test_an_unknown_strategy_changes_nothing_and_names_the_others() -> None:
    async with pages() as shown:
        status, body = await shown.ask("/pair/v1/strategy", "PUT", b'{"strategy": "best"}')
        assert (status, body["error"]["code"], body["error"]["param"]) == (
            400,
            "unknown_strategy",
            "strategy",
        )
        assert all(name in body["error"]["message"] for name in STRATEGIES)
        _, after = await shown.ask("/pair/v1/strategy")
        assert (after["strategy"], after["models"]) == ("queue-depth", {})


async def test_nobody_else_on_the_machine_may_look_and_nothing_stays() -> None:
    nobody = Scheduler(Settings().limits(), QueueDepth(), 0.0)
    async with Admin(nobody, feeding(nobody), proxy_id="p") as admin:
        folder = Path(admin.address).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert [each.name for each in folder.iterdir()] == ["admin.sock"]
    assert not folder.exists()


async def test_without_room_for_its_socket_it_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = Scheduler(Settings().limits(), QueueDepth(), 0.0)
    deep = tmp_path / ("x" * 100)  # the system takes about 100 bytes for a socket's whole path
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(UnusableAddress, match="TMPDIR"):
        async with Admin(nobody, feeding(nobody), proxy_id="p"):
            pass
    assert list(deep.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(UnusableAddress, match="TMPDIR"):
        async with Admin(nobody, feeding(nobody), proxy_id="p"):
            pass
