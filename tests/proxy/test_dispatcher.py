"""The one owner of the scheduler: what a ticket's task sees of decisions, whatever the order, and
alarms that ring on time.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pair.core.decisions import Decision, Dispatch, Probe, RefusalKind
from pair.core.events import (
    DrainRequested,
    Event,
    Failure,
    FailureKind,
    NodeReported,
    NodeSighted,
    Opened,
    ProbeMissed,
    Ticked,
    Usage,
)
from pair.core.names import ModelName, NodeId, Outcome, TicketId
from pair.core.queue_depth import QueueDepth
from pair.core.scheduler import Scheduler
from pair.errors import BookkeepingError
from pair.proxy.dispatcher import Dispatcher, Hold, Refused
from pair.settings import ProbingSettings, QueueSettings, RetrySettings, Settings
from tests.core.house import report

SOON_S = 5.0

PATIENT = Settings(
    probing=ProbingSettings(
        interval_s=60.0, suspect_interval_s=60.0, lost_interval_s=60.0, misses_until_lost_in_use=1
    )
)
"""No probe comes in between, and the first miss without a connection loses a node in use."""


class Desk:
    """A dispatcher over a scheduler, with the probes that it was asked to make."""

    def __init__(self, settings: Settings = PATIENT) -> None:
        loop = asyncio.get_running_loop()
        self.probes: list[tuple[float, Probe]] = []
        self.probed = asyncio.Event()
        scheduler = Scheduler(settings.limits(), QueueDepth(), loop.time())
        self.dispatcher = Dispatcher(scheduler, loop, self._probe)

    def _probe(self, probe: Probe) -> None:
        self.probes.append((self.dispatcher.loop.time(), probe))
        self.probed.set()

    def add(self, *nodes: str) -> None:
        """Nodes with one slot for the model `m`."""
        for name in nodes:
            self.dispatcher.feed(NodeSighted(NodeId(name), name, (f"http://{name}:1",)))
            self.dispatcher.feed(NodeReported(NodeId(name), report(name)))

    def lose(self, name: str) -> None:
        """Its link is cut."""
        self.dispatcher.feed(ProbeMissed(NodeId(name), False, None, "no connection"))

    def open(self, model: str = "m") -> Hold:
        return self.dispatcher.open(lambda ticket: Opened(ticket, ModelName(model)))

    def close(self, hold: Hold) -> None:
        hold.close(Outcome.ANSWERED, Usage(), "")

    def assert_nothing_is_held(self) -> None:
        desk = self.dispatcher.scheduler.desk
        assert not desk.tickets
        assert desk.ledger.in_flight == 0


async def soon(hold: Hold) -> Dispatch:
    """The next lease, which must not take long."""
    async with asyncio.timeout(SOON_S):
        return await hold.lease()


async def test_a_free_slot_is_leased_at_once_and_a_taken_one_when_it_comes_free() -> None:
    desk = Desk()
    desk.add("a")
    first, second = desk.open(), desk.open()
    assert (await soon(first)).replica.node == "a"
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(soon(second))
        await asyncio.sleep(0)
        assert not waiting.done()
        desk.close(first)
    assert waiting.result().ticket == second.ticket
    desk.close(second)
    desk.assert_nothing_is_held()


async def test_a_refusal_ends_the_wait() -> None:
    desk = Desk()
    desk.add("a")
    holder, waiter = desk.open(), desk.open()
    await soon(holder)
    desk.dispatcher.feed(DrainRequested())
    late = desk.open()
    with pytest.raises(Refused) as refused:
        await soon(late)
    assert refused.value.refuse.kind is RefusalKind.SHUTTING_DOWN
    for hold in (holder, waiter, late):
        desk.close(hold)
    desk.assert_nothing_is_held()


async def test_a_lease_taken_back_before_it_was_seen_is_never_seen() -> None:
    desk = Desk()
    desk.add("a", "b")
    hold = desk.open()
    desk.lose("a")  # the ticket moves to b before its task has looked even once
    dispatch = await soon(hold)
    assert (dispatch.replica.node, dispatch.attempt) == ("b", 2)
    assert hold.aborted is None
    hold.first_byte()
    desk.close(hold)
    desk.assert_nothing_is_held()


async def test_a_task_that_waits_sees_only_the_last_of_several_leases_in_one_turn() -> None:
    desk = Desk()
    desk.add("a")
    holder, hold = desk.open(), desk.open()
    await soon(holder)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(soon(hold))
        await asyncio.sleep(0)
        desk.close(holder)  # grants a's slot and wakes the task ...
        desk.add("b")
        desk.lose("a")  # ... which has not run yet
    assert waiting.result().replica.node == "b"
    desk.close(hold)
    desk.assert_nothing_is_held()


async def test_taken_back_unseen_and_refused_in_one_turn() -> None:
    desk = Desk(replace(PATIENT, retry=RetrySettings(attempts_limit=1)))
    desk.add("a", "b")
    hold = desk.open()
    desk.lose("a")
    with pytest.raises(Refused) as refused:
        await soon(hold)
    assert refused.value.refuse.kind is RefusalKind.ATTEMPTS_SPENT
    desk.close(hold)
    desk.assert_nothing_is_held()


async def test_a_lease_taken_back_in_use_is_told_at_once_and_only_then() -> None:
    desk = Desk()
    desk.add("a", "b")
    hold = desk.open()
    first = await soon(hold)
    told: list[str] = []
    hold.on_abort = lambda: told.append("" if hold.aborted is None else hold.aborted.detail)
    desk.lose("a")
    assert len(told) == 1
    assert "a is lost" in told[0]
    # What becomes of the old attempt no longer matters to the books.
    hold.failed(Failure(FailureKind.RESET, "too late"))
    second = await soon(hold)
    assert (first.replica.node, second.replica.node) == ("a", "b")
    assert hold.aborted is None
    desk.close(hold)
    desk.assert_nothing_is_held()


async def test_taken_back_in_use_and_again_before_the_next_was_seen() -> None:
    desk = Desk()
    desk.add("a", "b", "c")
    hold = desk.open()
    await soon(hold)
    told: list[int] = []
    hold.on_abort = lambda: told.append(1)
    desk.lose("a")
    desk.lose("b")
    assert len(told) == 1, "the second lease was not in use"
    assert (await soon(hold)).replica.node == "c"
    desk.close(hold)
    desk.assert_nothing_is_held()


async def test_a_failed_attempt_is_reported_and_the_next_lease_follows() -> None:
    desk = Desk()
    desk.add("a", "b")
    hold = desk.open()
    await soon(hold)
    hold.failed(Failure(FailureKind.RESET, "gone"))
    dispatch = await soon(hold)
    assert (dispatch.replica.node, dispatch.attempt) == ("b", 2)
    assert "gone" in dispatch.reason
    desk.close(hold)
    desk.assert_nothing_is_held()


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_task_cancelled_in_the_turn_of_its_lease_leaks_no_slot(
    cancelled_first: bool,
) -> None:
    desk = Desk()
    desk.add("a")
    holder, next_one = desk.open(), None
    await soon(holder)

    async def serve(hold: Hold) -> None:
        try:
            await hold.lease()
        finally:
            desk.close(hold)

    second = desk.open()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(serve(second))
        await asyncio.sleep(0)
        if cancelled_first:
            task.cancel()
            desk.close(holder)
        else:
            desk.close(holder)
            task.cancel()
        next_one = desk.open()
        # Granted as soon as the task has run its `finally`: no timer, no probe is needed.
        assert (await soon(next_one)).replica.node == "a"
        assert task.cancelled()
    desk.close(next_one)
    desk.assert_nothing_is_held()


async def test_a_ticket_is_closed_once() -> None:
    desk = Desk()
    desk.add("a")
    hold = desk.open()
    await soon(hold)
    desk.close(hold)
    with pytest.raises(BookkeepingError, match="I1"):
        desk.close(hold)
    desk.assert_nothing_is_held()


async def test_nothing_is_reported_of_a_lease_that_is_not_held() -> None:
    desk = Desk()
    hold = desk.open()
    with pytest.raises(BookkeepingError, match="holds no lease"):
        hold.first_byte()
    with pytest.raises(BookkeepingError, match="holds no lease"):
        hold.failed(Failure(FailureKind.RESET, "what?"))
    desk.close(hold)


async def test_a_second_decision_over_an_unseen_one_is_our_own_fault() -> None:
    desk = Desk()
    desk.add("a")
    hold = desk.open()
    dispatch = await soon(hold)
    hold.decide(dispatch)
    with pytest.raises(BookkeepingError, match="decided twice"):
        hold.decide(dispatch)
    desk.close(hold)


async def test_an_event_cannot_be_fed_while_another_is_being_performed() -> None:
    loop = asyncio.get_running_loop()
    scheduler = Scheduler(PATIENT.limits(), QueueDepth(), loop.time())
    faults: list[str] = []

    def probe(asked: Probe) -> None:
        try:
            dispatcher.feed(ProbeMissed(asked.node, False, None, "at once"))
        except BookkeepingError as fault:
            faults.append(str(fault))

    dispatcher = Dispatcher(scheduler, loop, probe)
    dispatcher.feed(NodeSighted(NodeId("a"), "a", ("http://a:1",)))
    assert len(faults) == 1
    assert "ProbeMissed" in faults[0]
    dispatcher.feed(NodeReported(NodeId("a"), report("a")))  # it goes on all the same
    assert scheduler.membership.nodes[NodeId("a")].phase == "ready"
    dispatcher.stop()


async def test_alarms_ring_on_time_again_and_again() -> None:
    interval_s = 0.05
    desk = Desk(Settings(probing=ProbingSettings(interval_s=interval_s)))
    desk.add("a")
    late = []
    for _ in range(4):
        due_at = desk.dispatcher.scheduler.clock + interval_s
        desk.probed.clear()
        async with asyncio.timeout(SOON_S):
            await desk.probed.wait()
        late.append(desk.probes[-1][0] - due_at)
        desk.dispatcher.feed(NodeReported(NodeId("a"), report("a")))
    desk.dispatcher.stop()
    assert min(late) >= 0
    assert sorted(late)[1] < 0.05, "most of them, on a machine that others use"


async def test_a_nearer_alarm_rings_first_and_the_farther_one_is_not_forgotten() -> None:
    interval_s, wait_limit_s = 0.2, 0.05
    settings = Settings(
        probing=ProbingSettings(interval_s=interval_s),
        queue=QueueSettings(wait_limit_s=wait_limit_s),
    )
    desk = Desk(settings)
    desk.add("a")  # the next probe is due in 0.2 s
    start = desk.dispatcher.scheduler.clock
    desk.probed.clear()
    holder, waiter = desk.open(), desk.open()
    await soon(holder)
    with pytest.raises(Refused) as refused:
        await soon(waiter)
    assert refused.value.refuse.kind is RefusalKind.WAITED_TOO_LONG
    assert not desk.probed.is_set()
    assert desk.dispatcher.loop.time() >= start + wait_limit_s
    async with asyncio.timeout(SOON_S):
        await desk.probed.wait()
    assert desk.probes[-1][0] >= start + interval_s
    desk.close(holder)
    desk.close(waiter)
    desk.dispatcher.stop()


async def test_after_its_end_nothing_rings() -> None:
    desk = Desk(Settings(probing=ProbingSettings(interval_s=0.05)))
    desk.add("a")
    desk.dispatcher.stop()
    asked = len(desk.probes)
    desk.probed.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(desk.probed.wait(), 0.1)
    assert len(desk.probes) == asked


async def test_tickets_are_numbered_in_the_order_of_their_opening() -> None:
    desk = Desk()
    holds = [desk.open() for _ in range(3)]
    assert [hold.ticket for hold in holds] == [TicketId(1), TicketId(2), TicketId(3)]
    for hold in holds:
        desk.close(hold)
    desk.dispatcher.stop()


class Wrong(Scheduler):
    """One with a bug that shows when an alarm rings."""

    def handle(self, event: Event, now: float) -> list[Decision]:
        if isinstance(event, Ticked):
            raise BookkeepingError("I3: settled twice")
        return super().handle(event, now)


async def test_books_that_an_alarm_finds_wrong_end_the_proxy() -> None:
    loop = asyncio.get_running_loop()
    quick = Settings(probing=ProbingSettings(interval_s=0.05))
    dispatcher = Dispatcher(
        Wrong(quick.limits(), QueueDepth(), loop.time()), loop, lambda probe: None
    )
    dispatcher.feed(NodeSighted(NodeId("a"), "a", ("http://a:1",)))
    dispatcher.feed(NodeReported(NodeId("a"), report("a")))
    async with asyncio.timeout(SOON_S):
        with pytest.raises(BookkeepingError, match="I3: settled twice"):
            await dispatcher.sound()
    dispatcher.stop()
