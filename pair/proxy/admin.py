"""Everything about `pair` itself over HTTP: snapshot, jobs, strategy, metrics. An aiohttp app on a
private socket.

Behind the relay like any upstream, because aiohttp on the public port would put its costs and its
limits on every answer. Answers come from memory; nothing here asks a node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

import pair
from pair.core.events import Event, StrategyChosen
from pair.core.job_reports import job_report
from pair.core.jobs import Job
from pair.core.names import JobId, NodeId, TicketId
from pair.core.scheduler import Scheduler
from pair.core.snapshot import Snapshot, take_snapshot
from pair.core.speeds import Speed
from pair.errors import RequestFault, UnusableAddress
from pair.proxy.doubled_engines import with_doubles
from pair.proxy.metrics import SchedulerCollector
from pair.wire.dialects import Dialect
from pair.wire.errors import own_error
from pair.wire.snapshot_json import NOBODY_WAITS, VERSION, job_json, snapshot_json
from pair.wire.strategy_choice import STRATEGY_PATH, read_strategy, strategy_json


class Admin:
    """The app and its private socket; `address` is where the relay finds it.

    Args:
        scheduler: for reading.
        feed: hands an event to it.
    """

    def __init__(
        self, scheduler: Scheduler, feed: Callable[[Event], None], *, proxy_id: str
    ) -> None:
        self.address = ""
        self._scheduler = scheduler
        self._feed = feed
        self._proxy_id = proxy_id
        self._unix_offset_s = 0.0
        self._stack = AsyncExitStack()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(SchedulerCollector(self._snapshot))

    async def __aenter__(self) -> Self:
        """Listen; raises UnusableAddress where that is not possible."""
        self._unix_offset_s = time.time() - asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            runner = self._runner()
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            try:
                # A folder of its own: nobody else on this machine may look into it.
                folder = stack.enter_context(
                    TemporaryDirectory(prefix="pair-", ignore_cleanup_errors=True)
                )
                self.address = str(Path(folder) / "admin.sock")
                await web.UnixSite(runner, self.address).start()
            except OSError as error:
                raise UnusableAddress(
                    f"cannot make the private socket for pair's own pages: {error}; "
                    "set TMPDIR to a folder with a short name that can be written to"
                ) from error
            self._stack = stack.pop_all()
        return self

    def _runner(self) -> web.AppRunner:
        app = web.Application(client_max_size=64 * 1024)
        app.add_routes(
            [
                web.get("/pair/v1/snapshot", self._get_snapshot),
                web.get("/pair/v1/jobs", self._get_jobs),
                web.get("/pair/v1/jobs/{id:.+}", self._get_job),
                web.get(STRATEGY_PATH, self._get_strategy),
                web.put(STRATEGY_PATH, self._put_strategy),
                web.get("/metrics", self._get_metrics),
                web.route("*", "/{path:.*}", self._get_nothing),
            ]
        )
        return web.AppRunner(app, handle_signals=False, access_log=None, handler_cancellation=True)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def _snapshot(self) -> Snapshot:
        return take_snapshot(self._scheduler, asyncio.get_running_loop().time())

    async def _get_snapshot(self, _: web.Request) -> web.Response:
        snapshot = with_doubles(self._snapshot())
        shown = snapshot_json(snapshot, version=pair.__version__, proxy_id=self._proxy_id)
        return web.json_response(shown)

    async def _get_jobs(self, _: web.Request) -> web.Response:
        jobs = [self._job_json(job, calls=False) for job in self._scheduler.desk.jobs.jobs()]
        return web.json_response({"v": VERSION, "jobs": jobs})

    async def _get_job(self, request: web.Request) -> web.Response:
        job = self._scheduler.desk.jobs.job(JobId(request.match_info["id"]))
        if job is None:
            message = f"there is no job {request.match_info['id']!r}; GET /pair/v1/jobs lists them"
            return _missing("no_such_job", message, "id")
        return web.json_response(self._job_json(job, calls=True))

    def _job_json(self, job: Job, *, calls: bool) -> dict[str, object]:
        now = asyncio.get_running_loop().time()
        baseline = self._scheduler.desk.jobs.baseline_of(job)
        report = job_report(job, baseline, now, self._speeds(job))
        waits = self._waits(job) if calls else NOBODY_WAITS
        return job_json(job, report, unix_offset_s=self._unix_offset_s, calls=calls, waits=waits)

    def _speeds(self, job: Job) -> dict[NodeId, Speed]:
        """What is known of the nodes that hold the job's models."""
        fleet, estimates = self._scheduler.fleet, self._scheduler.matching.outlook.estimates
        holders = [
            replica
            for name in {call.model for call in job.calls.values()}
            for replica in fleet.holders(name)
        ]
        known = {one.id.node: estimates.speed(one.id) for one in holders}
        return {node: speed for node, speed in known.items() if speed is not None}

    def _waits(self, job: Job) -> dict[TicketId, str]:
        """Why those of its calls wait that the strategy has left waiting beside a free slot."""
        tickets = self._scheduler.desk.tickets
        waiting = [ticket for call in job.calls if (ticket := tickets.get(call)) is not None]
        return {ticket.id: ticket.wait_reason for ticket in waiting if ticket.wait_reason}

    async def _get_strategy(self, _: web.Request) -> web.Response:
        matching = self._scheduler.matching
        of_models = {model: one.name for model, one in matching.strategies.items()}
        return web.json_response(strategy_json(matching.strategy.name, of_models))

    async def _put_strategy(self, request: web.Request) -> web.Response:
        try:
            wish = read_strategy(await request.read())
        except RequestFault as fault:
            return _error(fault.status, fault.code, str(fault), fault.param)
        self._feed(StrategyChosen(wish.name, wish.model))
        return await self._get_strategy(request)

    async def _get_nothing(self, request: web.Request) -> web.Response:
        message = (
            f"there is no {request.method} {request.path[:200]!r}; pair's own pages are "
            "/pair/v1/snapshot, /pair/v1/jobs, /pair/v1/jobs/ID, /metrics and /healthz, all GET, "
            f"and {STRATEGY_PATH}, GET and PUT"
        )
        return _missing("no_such_path", message, None)

    async def _get_metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


def _missing(code: str, message: str, param: str | None) -> web.Response:
    return _error(404, code, message, param)


def _error(status: int, code: str, message: str, param: str | None) -> web.Response:
    body = own_error(Dialect.OPENAI, status, code, message, param)
    return web.Response(status=status, body=body, content_type="application/json")
