"""I1 to I8, I12 on random walks: whatever a shell and a house can do, in any order, at any moment.

The audit (`audit.py`) checks every invariant after every event. Each walk ends with one healthy
node, on which all that still waits must come to an end (liveness), and with a replay (I8).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pair.core.decisions import Dispatch
from pair.core.events import (
    AttemptFailed,
    Closed,
    DrainRequested,
    Event,
    Failure,
    FailureKind,
    FirstByte,
    NodeIdentified,
    NodeReported,
    NodeSighted,
    NodeWithdrawn,
    Opened,
    ProbeMissed,
    StrategyChosen,
    Ticked,
    Usage,
)
from pair.core.names import (
    EngineName,
    FlowId,
    JobId,
    LeaseId,
    ModelName,
    NodeId,
    Outcome,
    Priority,
    SessionId,
    TicketId,
)
from pair.core.prompt import NO_PROMPT, Prompt
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState
from pair.core.snapshot import take_snapshot
from pair.core.strategies import STRATEGIES
from pair.errors import BookkeepingError
from tests.core.hesitant import any_strategy
from tests.core.house import House, replica, report
from tests.core.limits import limits
from tests.core.speeds_of import prompt

NODES = [NodeId(name) for name in "abcd"]
MODELS = [ModelName(name) for name in ("m", "n", "m:7b", "nowhere")]
# Short, so that a walk of some dozen steps meets every one of them.
LIMITS = limits(
    waiting_limit=4,
    wait_limit_s=0.0,
    start_grace_s=2.0,
    hopeless_grace_s=4.0,
    misses_until_lost_in_use=4,
    forget_s=20.0,
    nodes_limit=4,
    pause_limit_s=4.0,
    left_grace_s=2.0,
    jobs_limit=4,
    calls_limit=3,
    priority_bound_s=2.0,
    fairness_half_life_s=5.0,
    flows_limit=4,
    fingerprints_limit=60,
    estimates_limit=3,
    concurrency_threshold=2,
)
A_NODE = st.sampled_from(NODES)
REPLICAS = st.builds(
    ReplicaReport,
    engine=st.sampled_from([EngineName("e:1"), EngineName("e:2")]),
    engine_kind=st.sampled_from(["echo", "vllm"]),
    model=st.sampled_from([ModelName("m"), ModelName("n")]),
    aliases=st.sampled_from([frozenset(), frozenset({ModelName("m:7b")})]),
    state=st.sampled_from([ReplicaState.READY] * 3 + list(ReplicaState)),
    slots=st.integers(1, 3),
    running=st.sampled_from([None, 0, 0, 1, 2]),
    waiting=st.sampled_from([None, 0, 1]),
    yours=st.sampled_from([None, None, 0, 1, 3]),
    resident=st.sampled_from([None, True, False]),
    context_tokens=st.sampled_from([None, None, 500, 4000]),
)
PROMPTS = [
    NO_PROMPT,
    Prompt(400, (), 20),
    prompt("x", chars=4096),
    prompt("x", "y", chars=8192),
    prompt("z", chars=6000),
]
AFTER_COMMIT = [FailureKind.CUT, FailureKind.STALLED]
BEFORE_COMMIT = [kind for kind in FailureKind if kind not in AFTER_COMMIT]


class Walk(RuleBasedStateMachine):
    """A house in which anything happens; nodes answer when a rule says so, not by themselves."""

    @initialize(
        strategy=st.sampled_from([*STRATEGIES, "hesitant"]),
        waits=st.booleans(),
        begins=st.lists(st.tuples(A_NODE, st.integers(1, 2)), max_size=3),
    )
    def begin(self, strategy: str, waits: bool, begins: list[tuple[NodeId, int]]) -> None:
        chosen = replace(LIMITS, wait_limit_s=5.0) if waits else LIMITS
        self.house = House(chosen, any_strategy(strategy))
        self.house.answer_probes = False
        self.audit = self.house.scheduler.audit
        self.opened = 0
        self.broken = False
        for node, slots in begins:
            self.comes_up(node, "1", slots, ("m", "n"))

    def feed(self, event: Event) -> None:
        self.broken = True
        self.house.feed(event)
        self.nobody_waits_too_long()
        self.broken = False

    def nobody_waits_too_long(self) -> None:
        """I4: beside a free slot, for what it would have needed. I7: nothing learned is
        unbounded.
        """
        scheduler = self.house.scheduler
        for ticket in map(scheduler.desk.tickets.__getitem__, scheduler.matching.left_waiting):
            until = ticket.patience_until
            finish = scheduler.matching.strategy_of(ticket.name).name == "finish-time"
            assert not finish or until is None or self.house.now < until, f"I4: {ticket}"
        outlook = scheduler.matching.outlook
        assert len(outlook.prefixes) <= LIMITS.fingerprints_limit, "I7: the prefix index"
        assert len(outlook.estimates) <= LIMITS.estimates_limit, "I7: the estimates"
        assert len(outlook.siblings) <= len(self.audit.tickets), "I7: siblings"
        assert len(outlook.upcoming) <= len(self.audit.leases), "I7: upcoming ends"

    # Clients

    @rule(
        model=st.sampled_from(MODELS),
        pin=st.sampled_from([None] * 5 + ["a", "b", "nobody"]),
        job=st.sampled_from([None, None, JobId("team"), JobId("team/alone")]),
        key=st.booleans(),
        flow=st.sampled_from([FlowId(name) for name in ("", "x", "y", "z", "u", "v")]),
        priority=st.sampled_from(Priority),
        text=st.sampled_from(PROMPTS),
        session=st.sampled_from([None, SessionId("s"), SessionId("t")]),
    )
    def call(
        self,
        model: ModelName,
        pin: str | None,
        job: JobId | None,
        key: bool,
        flow: FlowId,
        priority: Priority,
        text: Prompt,
        session: SessionId | None,
    ) -> None:
        self.opened += 1
        self.feed(
            Opened(
                TicketId(self.opened),
                model,
                pin=pin,
                job=job,
                streamed=self.opened % 2 == 0,
                brings_key=key,
                flow=flow,
                priority=priority,
                prompt=text,
                session=session,
            )
        )

    @rule(
        size=st.integers(2, 7),
        model=st.sampled_from(MODELS[:3]),
        flow=st.sampled_from([FlowId("x"), FlowId("y")]),
        priority=st.sampled_from(Priority),
        text=st.sampled_from(PROMPTS),
    )
    def burst(
        self, size: int, model: ModelName, flow: FlowId, priority: Priority, text: Prompt
    ) -> None:
        for _ in range(size):
            self.call(model, None, None, False, flow, priority, text, None)

    @rule(
        strategy=st.sampled_from(list(STRATEGIES)),
        model=st.sampled_from([None, None, ModelName("m"), ModelName("nowhere")]),
    )
    def switch(self, strategy: str, model: ModelName | None) -> None:
        """In the middle of everything."""
        self.feed(StrategyChosen(strategy, model))

    @rule(
        model=st.sampled_from([None, *MODELS]),
        pin=st.sampled_from([None, None, "a"]),
        key=st.booleans(),
    )
    def light_call(self, model: ModelName | None, pin: str | None, key: bool) -> None:
        self.opened += 1
        self.feed(Opened(TicketId(self.opened), model, light=True, pin=pin, brings_key=key))

    @precondition(lambda self: self.audit.leases)
    @rule()
    def answer(self) -> None:
        """The attempt that has run longest ends well."""
        self.ends_well(next(iter(self.audit.leases.values()))[0], 0.5)

    def ends_well(self, ticket: TicketId, cached: float) -> None:
        """With counts as engines give them; four characters are a token."""
        tokens = self.audit.tickets[ticket].opened.prompt.chars // 4
        usage = Usage(tokens, round(tokens * cached), 1 + ticket % 50) if tokens else Usage()
        self.feed(Closed(ticket, Outcome.ANSWERED, usage))

    @precondition(lambda self: self.audit.tickets)
    @rule(
        pick=st.data(), outcome=st.sampled_from([Outcome.ANSWERED, Outcome.CLIENT_LEFT, *Outcome])
    )
    def close(self, pick: Any, outcome: Outcome) -> None:
        """Whatever the ticket's state: waiting, dispatched this instant, committed, refused."""
        self.feed(Closed(pick.draw(st.sampled_from(list(self.audit.tickets))), outcome))

    # Attempts

    def a_lease(self, pick: Any) -> tuple[TicketId, LeaseId]:
        lease = pick.draw(st.sampled_from(list(self.audit.leases)))
        return self.audit.leases[lease][0], lease

    @precondition(lambda self: self.audit.leases)
    @rule(pick=st.data(), error=st.booleans())
    def first_byte(self, pick: Any, error: bool) -> None:
        self.feed(FirstByte(*self.a_lease(pick), error))

    @precondition(lambda self: self.audit.leases)
    @rule(
        pick=st.data(),
        kind=st.sampled_from(BEFORE_COMMIT),
        late_kind=st.sampled_from(AFTER_COMMIT),
        retry_after_s=st.sampled_from([None, None, 0.1, 900.0]),
    )
    def fail(
        self, pick: Any, kind: FailureKind, late_kind: FailureKind, retry_after_s: float | None
    ) -> None:
        ticket, lease = self.a_lease(pick)
        if self.audit.tickets[ticket].committed:
            kind = late_kind
        self.feed(AttemptFailed(ticket, lease, Failure(kind, kind.value, retry_after_s)))

    @precondition(lambda self: self.audit.settled and self.audit.tickets)
    @rule(pick=st.data())
    def settle_twice(self, pick: Any) -> None:
        """I3: the second settlement raises, and changes nothing."""
        lease = pick.draw(st.sampled_from(sorted(self.audit.settled)))
        ticket = pick.draw(st.sampled_from(list(self.audit.tickets)))
        event = AttemptFailed(ticket, lease, Failure(FailureKind.RESET, "late"))
        with pytest.raises(BookkeepingError, match="I3"):
            self.house.scheduler.handle(event, self.house.now)
        self.house.scheduler.compare_books(self.house.now)

    # Nodes

    @rule(
        node=st.sampled_from(NODES),
        version=st.sampled_from(["1", ""]),
        slots=st.integers(1, 3),
        names=st.sampled_from([("m",), ("m", "n"), ("n", "m:7b")]),
    )
    def comes_up(self, node: NodeId, version: str, slots: int, names: tuple[str, ...]) -> None:
        """Sighted and answering at once, for walks in which something is served."""
        self.feed(NodeSighted(node, node, (f"http://{node}",)))
        replicas = [replica(name, slots=slots) for name in names]
        self.feed(NodeReported(node, report(node, *replicas, version=version)))

    @rule(
        node=st.sampled_from(NODES),
        replicas=st.lists(REPLICAS, max_size=3, unique_by=lambda said: (said.engine, said.model)),
        version=st.sampled_from(["1", "1", ""]),
        draining=st.sampled_from([False] * 5 + [True]),
        process=st.sampled_from(["", "", "p", "q"]),
        number=st.integers(0, 3),
        pushed=st.booleans(),
    )
    def reports(
        self,
        node: NodeId,
        replicas: list[ReplicaReport],
        version: str,
        draining: bool,
        process: str,
        number: int,
        pushed: bool,
    ) -> None:
        """The answer to a probe, or a push; either may be older than what came before."""
        word = NodeReport(
            node,
            f"{node}-name",
            version,
            draining,
            tuple(replicas),
            process=process,
            number=number,
        )
        self.feed(NodeReported(node, word, pushed))

    @precondition(lambda self: self.audit.nodes)
    @rule(
        pick=st.data(),
        connected=st.booleans(),
        flows=st.sampled_from([False, False, True]),
        times=st.sampled_from([1, 1, 1, 2, 4]),
    )
    def misses(self, pick: Any, connected: bool, flows: bool, times: int) -> None:
        node = pick.draw(st.sampled_from(list(self.audit.nodes)))
        for _ in range(times):
            self.feed(ProbeMissed(node, connected, self.house.now if flows else None, "silent"))

    @rule(
        event=st.one_of(
            st.builds(NodeSighted, A_NODE, A_NODE, st.just(("http://x",)), st.booleans()),
            st.builds(NodeWithdrawn, A_NODE),
            st.builds(NodeIdentified, A_NODE, A_NODE),
            st.builds(DrainRequested, st.just(NodeId("d"))),
            # Anything on the LAN can send records (I7).
            st.integers(0, 99).map(
                lambda number: NodeSighted(NodeId(f"stranger-{number}"), "x", ("http://x",))
            ),
        )
    )
    def record(self, event: Event) -> None:
        self.feed(event)

    @precondition(lambda self: self.opened > 20 and not self.audit.draining)
    @rule()
    def drain(self) -> None:
        self.feed(DrainRequested())

    # Time

    @rule(
        after_s=st.sampled_from([0.0, 0.001, 0.25, 0.7, 1.5, 3.0, 8.0]),
        how=st.sampled_from(["every promise kept", "every promise kept", "a late tick", "no tick"]),
    )
    def time_passes(self, after_s: float, how: str) -> None:
        if how == "every promise kept":
            self.house.run_until(self.house.now + after_s)
        else:
            self.house.now += after_s
            if how == "a late tick":
                self.feed(Ticked())

    # The end

    def teardown(self) -> None:
        if self.broken:
            return
        self.everything_waiting_comes_to_an_end()
        self.nothing_is_left()
        self.house.scheduler.replay()

    def everything_waiting_comes_to_an_end(self) -> None:
        house, audit = self.house, self.audit
        # With less room than others have said: whoever needed more must not wait for those.
        small = [replace(replica(name, slots=2), context_tokens=500) for name in ("m", "n", "m:7b")]
        healthy = report("a", *small)
        house.answer_probes = True
        # All else is dead from here on. `a` keeps its id, its pins and perhaps its drain.
        house.words = {NodeId("a"): healthy}
        for node in list(audit.nodes):
            if audit.nodes[node].probed_at is not None:
                self.feed(ProbeMissed(node, False, None, "dead"))
        self.feed(NodeSighted(NodeId("a"), "a", ("http://a",)))
        for ticket in [ticket for ticket, seen in audit.tickets.items() if seen.over]:
            self.feed(Closed(ticket, Outcome.REFUSED))
        for _ in range(80):
            house.run_until(house.now + 1.0)
            for lease, (ticket, where, _) in list(audit.leases.items()):
                if where.node == "a" and lease in audit.leases:
                    self.feed(Closed(ticket, Outcome.ANSWERED))
            for ticket in [ticket for ticket, seen in audit.tickets.items() if seen.over]:
                self.feed(Closed(ticket, Outcome.FAILED))
        assert not audit.tickets, f"liveness: {audit.tickets} wait though a healthy node is there"

    def nothing_is_left(self) -> None:
        assert len(self.audit.fates) == self.opened, "I1: not every ticket has a fate"
        assert not self.audit.leases, f"I1: {self.audit.leases} are live at the end"
        outlook = self.house.scheduler.matching.outlook
        assert (len(outlook.siblings), len(outlook.upcoming)) == (0, 0), "I7: left over"
        self.house.scheduler.compare_books(self.house.now)
        for node in take_snapshot(self.house.scheduler, self.house.now).nodes:
            assert not any(one.draining for one in node.replicas), f"I2: {node} drains for ever"
        dispatched = [
            decision.lease
            for _, _, decisions in self.house.scheduler.log
            for decision in decisions
            if isinstance(decision, Dispatch)
        ]
        assert sorted(dispatched) == sorted(self.audit.settled), "I3: leases without a settlement"


TestWalk = Walk.TestCase
TestWalk.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
