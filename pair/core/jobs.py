"""Which requests belong together, and what became of each: the log from which job reports are made.

A job is what the client names, else what time shows: calls for one model that overlap or follow
within a short gap. Kept apart from the scheduler because it only listens: nothing here changes a
decision.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pair.core.events import Usage
from pair.core.limits import Limits
from pair.core.names import EngineName, JobId, ModelName, NodeId, Outcome, TicketId
from pair.core.replica import Replica
from pair.core.ticket import Ticket

ALONE = "/alone"
"""A job `NAME/alone` is the measured baseline of the job `NAME`: the same calls on one node."""

CLOCK_STEP_S = 0.001
"""The shortest time (s) that a call is said to have taken. A coarse clock may show none at all, or
an answer from a cache hardly any, and speeds are quotients of such times.
"""


@dataclass(slots=True, eq=False)
class Call:
    """One request in the log; times on the clock of `now`, None until they happen."""

    ticket: TicketId
    model: ModelName
    client: str
    streamed: bool
    opened_at: float
    node: NodeId | None = None
    node_name: str = ""
    engine: EngineName | None = None
    granted_at: float | None = None
    queued_s: float = 0.0
    first_byte_at: float | None = None
    closed_at: float | None = None
    outcome: Outcome | None = None
    usage: Usage = Usage()
    attempts: int = 0
    reason: str = ""
    detail: str = ""

    @property
    def service_s(self) -> float | None:
        """Last lease granted to settled, None until both are known; never 0."""
        if self.granted_at is None or self.closed_at is None:
            return None
        return max(CLOCK_STEP_S, self.closed_at - self.granted_at)


@dataclass(slots=True, eq=False)
class Job:
    """Requests that belong together.

    Attributes:
        fleet: slots and name of each node that held the model while the job ran: what the wave
            limit is about.
        fleet_version: the fleet's version when it was last noted in full.
        calls: at most `calls_limit` of them; `calls_total` counts all.
        width: most calls open at once; a chain of calls that wait for each other has width 1.
        idle_s: time inside the job with no call open, such as an agent's thinking.
        served: any of its calls ever got a lease.
    """

    id: JobId
    named: bool
    opened_at: float
    calls: dict[TicketId, Call] = field(default_factory=dict)
    calls_total: int = 0
    open_calls: int = 0
    width: int = 0
    idle_s: float = 0.0
    served: bool = False
    last_closed_at: float | None = None
    fleet: dict[NodeId, tuple[str, int]] = field(default_factory=dict)
    fleet_version: int = -1

    @property
    def running(self) -> bool:
        return self.open_calls > 0

    def note_fleet(self, holders: Iterable[Replica]) -> None:
        """Take in who holds the model now; a node that joins in the middle counts for the limit
        too.
        """
        slots: dict[NodeId, int] = {}
        for replica in holders:
            node = replica.id.node
            slots[node] = slots.get(node, 0) + replica.report.slots
            self.fleet[node] = (
                replica.node_name,
                max(slots[node], self.fleet.get(node, ("", 0))[1]),
            )


class JobLog:
    """The latest jobs; bounded by `jobs_limit` jobs of `calls_limit` calls (I7)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: OrderedDict[JobId, Job] = OrderedDict()
        self._found: dict[ModelName, Job] = {}
        self._by_ticket: dict[TicketId, Job] = {}
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def job(self, job_id: JobId) -> Job | None:
        return self._jobs.get(job_id)

    def jobs(self) -> tuple[Job, ...]:
        """All remembered, oldest first."""
        return tuple(self._jobs.values())

    def baseline_of(self, job: Job) -> Job | None:
        """The measured baseline, None if no finished one is remembered."""
        alone = self._jobs.get(JobId(f"{job.id}{ALONE}"))
        return alone if alone is not None and not alone.running else None

    def open(self, ticket: Ticket, now: float) -> Job:
        """Put a new ticket into its job."""
        job = self._job_for(ticket, now)
        if job.open_calls == 0 and job.last_closed_at is not None:
            job.idle_s += now - job.last_closed_at
        job.open_calls += 1
        job.width = max(job.width, job.open_calls)
        job.calls_total += 1
        self._by_ticket[ticket.id] = job
        if len(job.calls) < self._limits.calls_limit:
            opened = ticket.opened
            job.calls[ticket.id] = Call(ticket.id, ticket.name, opened.client, opened.streamed, now)
        return job

    def of_ticket(self, ticket_id: TicketId) -> Job | None:
        """The job of a ticket that is still open, None for a light one."""
        return self._by_ticket.get(ticket_id)

    def granted(self, ticket: Ticket, replica: Replica, reason: str, now: float) -> None:
        """The ticket got a lease; a later attempt overwrites the earlier one's node and time."""
        job = self._by_ticket.get(ticket.id)
        if job is None:
            return
        job.served = True
        call = job.calls.get(ticket.id)
        if call is not None:
            call.node, call.node_name, call.engine = (
                replica.id.node,
                replica.node_name,
                replica.id.engine,
            )
            call.granted_at, call.queued_s = now, ticket.queued_s
            call.attempts, call.reason = ticket.attempts, reason

    def first_byte(self, ticket_id: TicketId, now: float) -> None:
        call = self._call(ticket_id)
        if call is not None:
            call.first_byte_at = now

    def close(
        self, ticket: Ticket, outcome: Outcome, usage: Usage, detail: str, now: float
    ) -> None:
        job = self._by_ticket.pop(ticket.id, None)
        if job is None:
            return
        call = job.calls.get(ticket.id)
        if call is not None:
            call.closed_at, call.outcome, call.usage, call.detail = now, outcome, usage, detail
            call.attempts = ticket.attempts
        job.open_calls -= 1
        job.last_closed_at = now
        if not (job.running or job.named or job.served):
            # A client that keeps asking for what is not there must not push out real jobs.
            self._drop(job)

    def _call(self, ticket_id: TicketId) -> Call | None:
        job = self._by_ticket.get(ticket_id)
        return None if job is None else job.calls.get(ticket_id)

    def _job_for(self, ticket: Ticket, now: float) -> Job:
        named = ticket.opened.job
        if named is not None:
            job = self._jobs.get(named)
            return job if job is not None else self._add(Job(named, True, now))
        found = self._found.get(ticket.name)
        if found is not None and found.id in self._jobs:
            last = found.last_closed_at
            if found.running or (last is not None and now - last <= self._limits.job_gap_s):
                return found
        job = self._add(Job(self._free_id(), False, now))
        self._found[ticket.name] = job
        return job

    def _free_id(self) -> JobId:
        """The next number whose id no client has taken as a name."""
        while True:
            self._numbered += 1
            job_id = JobId(f"found-{self._numbered}")
            if job_id not in self._jobs:
                return job_id

    def _add(self, job: Job) -> Job:
        if len(self._jobs) >= self._limits.jobs_limit:
            # Of the finished, those that nobody served go first; if all run, the oldest goes and
            # its calls are still counted as tickets.
            self._drop(min(self._jobs.values(), key=_worth))
        self._jobs[job.id] = job
        return job

    def _drop(self, job: Job) -> None:
        if self._jobs.get(job.id) is job:
            del self._jobs[job.id]
        for model in [model for model, found in self._found.items() if found is job]:
            del self._found[model]


def _worth(job: Job) -> int:
    """How much a full log wants to keep a job, 0 for the least."""
    if job.running:
        return 2
    return 1 if job.served else 0
