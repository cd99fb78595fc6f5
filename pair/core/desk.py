"""The ticket side of the scheduler: what becomes of each ticket, and what follows a failed attempt.

Who gets which slot is `matching.py`. Knows nodes only through the fleet's index; `watch.py` is the
side that knows how nodes come and go.
"""

from __future__ import annotations

from pair.core import refusals
from pair.core.decisions import HOPELESS, Abort, RefusalKind, Refuse
from pair.core.eligibility import has_fresh, ready_for_light
from pair.core.events import AttemptFailed, Closed, Failure, FailureKind, FirstByte, Opened
from pair.core.fairness import weighted_tokens
from pair.core.fleet import Fleet
from pair.core.hope import Hope, InVain
from pair.core.ledger import Lease
from pair.core.limits import Limits
from pair.core.load import discount_refused, forget_calls
from pair.core.matching import Matching
from pair.core.membership import Membership, Node
from pair.core.names import ModelName, NodeId, Outcome, TicketId
from pair.core.retrying import RULES, Hurts
from pair.core.standing import prove, restore, set_aside
from pair.core.ticket import Ticket
from pair.core.windows import too_long
from pair.errors import BookkeepingError

_SERVICE_WEIGHT = 0.2
"""Weight of the newest service time in the running mean behind `Retry-After`; about the last ten
calls count.
"""


class Desk:
    """Tickets from `Opened` to `Closed`; leases and lines are the matching's, and what it decides
    goes out there, too.
    """

    def __init__(
        self,
        limits: Limits,
        membership: Membership,
        fleet: Fleet,
        hope: Hope,
        matching: Matching,
    ) -> None:
        self.tickets: dict[TicketId, Ticket] = {}
        self.matching = matching
        self.room = matching.room
        self.ledger = matching.ledger
        self.jobs = matching.jobs
        self.draining = False
        self.opened_count = 0
        self.closed_count: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self._limits = limits
        self._membership = membership
        self._fleet = fleet
        self.hope = hope
        self._service_s = 1.0

    # The life of a ticket

    def open(self, event: Opened, now: float) -> None:
        """Admit a ticket: dispatch it, let it wait, or refuse it."""
        if event.ticket in self.tickets:
            raise BookkeepingError(f"I1: ticket {event.ticket} is open already")
        self.opened_count += 1
        ticket = Ticket(event, self.opened_count, now)
        if ticket.model is not None:
            ticket.model = self._fleet.meant(ticket.model)
        self.tickets[event.ticket] = ticket
        if self.draining:
            self._refuse(ticket, RefusalKind.SHUTTING_DOWN, refusals.shutting_down(), now)
            return
        if event.pin is not None:
            ticket.pin = NodeId(event.pin)
            if not self._judge_pin(ticket, now):
                return
        if event.light:
            self._serve_light(ticket, now)
            return
        if not self._judge_key(ticket, now):
            return
        if not self._judge_length(ticket, now):
            return
        self.matching.outlook.opened(ticket)
        self.jobs.open(ticket, now)
        self.matching.note_fleet(ticket)
        self.matching.wait(ticket, now)
        self.matching.match(now)
        if ticket.waiting_since is None:
            return
        self.judge_hope(ticket.name, now)
        if self.room.overfull and not ticket.over:
            detail = refusals.queue_full(self.room.limit)
            self._refuse(ticket, RefusalKind.QUEUE_FULL, detail, now)

    def first_byte(self, event: FirstByte, now: float) -> None:
        """The commit point; a second one for the same lease changes nothing."""
        ticket = self._ticket(event.ticket)
        if ticket.lease is None or ticket.lease.id != event.lease:
            raise BookkeepingError(
                f"first byte for ticket {event.ticket}, which does not hold lease {event.lease}"
            )
        if not ticket.committed:
            ticket.committed = True
            self.jobs.first_byte(ticket.id, now)
            replica = ticket.lease.replica
            if ticket.lease.light:
                return
            if not event.error:
                self.matching.outlook.first_byte(ticket, ticket.lease, now)
            if replica.unproven:
                prove(replica)
                self.matching.refresh(replica, now)

    def attempt_failed(self, event: AttemptFailed, now: float) -> Node | None:
        """Settle the lease and decide what follows; returns the node, to be looked at, if it is
        still known.
        """
        ticket = self._ticket(event.ticket)
        if ticket.lease is None or ticket.lease.id != event.lease:
            raise BookkeepingError(f"I3: ticket {event.ticket} does not hold lease {event.lease}")
        replica, light = ticket.lease.replica, ticket.opened.light
        # Not to know a path is an honest answer: it must not make a healthy node look broken.
        replica.failed += event.failure.kind is not FailureKind.NOT_THERE
        node = self._membership.nodes.get(replica.id.node)
        # What is light goes to whichever replica is first, may be anything that a client thinks of,
        # and its success proves nothing either.
        if node is not None and not (light and RULES[event.failure.kind].hurts is Hurts.REPLICA):
            granted_at = ticket.lease.granted_at
            set_aside(replica, node, event.failure, self._limits, now, granted_at=granted_at)
        self.matching.outlook.failed(ticket, ticket.lease)
        self.matching.settle(ticket, ticket.lease, now, left=RULES[event.failure.kind].left)
        if event.failure.kind in (FailureKind.BUSY, FailureKind.RATE_LIMITED):
            discount_refused(replica)
        if light and event.failure.kind is FailureKind.NOT_THERE:
            ticket.lacking.add((replica.id.node, replica.id.engine))
        self._try_again(ticket, replica.id.node, event.failure, now)
        return node

    def close(self, event: Closed, now: float) -> Node | None:
        """Free whatever the ticket holds and forget it; returns the node whose engine may still
        compute for it, if there is one.
        """
        ticket = self._ticket(event.ticket)
        lease, node = ticket.lease, None
        if lease is not None:
            answered = event.outcome is Outcome.ANSWERED
            lease.replica.tokens.add(event.usage)
            if answered:
                self._served(lease, now)
                if not lease.light:
                    self.matching.outlook.answered(ticket, lease, event.usage, now)
            if self.matching.settle(ticket, lease, now, left=not answered):
                node = self._membership.nodes.get(lease.replica.id.node)
        self.matching.leave_room(ticket, now)
        if ticket.charge is not None:
            expected = self.matching.outlook.tokens(ticket)
            self.room.correct(ticket, weighted_tokens(*expected, event.usage), now)
        self.matching.outlook.closed(ticket)
        del self.tickets[ticket.id]
        self.closed_count[event.outcome] += 1
        self.jobs.close(ticket, event.outcome, event.usage, event.detail, now)
        return node

    def _served(self, lease: Lease, now: float) -> None:
        lease.replica.served += 1
        if not lease.light:
            restore(lease.replica)
            self._service_s += _SERVICE_WEIGHT * (now - lease.granted_at - self._service_s)

    def lose(self, node: Node, now: float) -> None:
        """Settle every lease on a lost node and move or end its ticket, once (I6); nothing drains
        there either.
        """
        for lease in self.ledger.on_node(node.id):
            ticket = self.tickets[lease.ticket]
            self.matching.outlook.failed(ticket, lease)
            self.matching.settle(ticket, lease, now)
            self.matching.out.append(
                Abort(ticket.id, lease.id, f"node {node.name} is lost: {node.reason}")
            )
            self._try_again(ticket, node.id, refusals.node_lost(node), now)
        for replica in node.replicas.values():
            forget_calls(replica)

    def _try_again(self, ticket: Ticket, node: NodeId, failure: Failure, now: float) -> None:
        """Send a ticket whose lease is settled back to the head of its line, or end it, as the
        retry table says.
        """
        rule = RULES[failure.kind]
        ticket.last_failure = failure
        if ticket.committed:
            ticket.over = True
            return
        self.room.refund(ticket)
        # A light request never waits, so it would ask the same full node again and again. It never
        # comes back to one either, so what is free and elsewhere ends with the nodes.
        light = ticket.opened.light
        if not rule.counts and light == rule.avoid:
            ticket.attempts -= 1
        if (rule.avoid or light) and not (light and failure.kind is FailureKind.NOT_THERE):
            ticket.avoided.add(node)
        ticket.engine_errors += rule.once_elsewhere
        spent = not rule.again or ticket.attempts >= self._limits.attempts_limit
        spent = spent or ticket.engine_errors > 1
        if rule.hurts is Hurts.NOBODY and not (light or has_fresh(ticket, self._fleet)):
            spent = True  # no pause would keep it from going round and round
        if spent:
            detail = refusals.attempts_spent(ticket, failure)
            self._refuse(ticket, RefusalKind.ATTEMPTS_SPENT, detail, now)
        elif light:
            self._serve_light(ticket, now)
        else:
            self.matching.wait(ticket, now)
            self.judge_hope(ticket.name, now)

    def _ticket(self, ticket_id: TicketId) -> Ticket:
        ticket = self.tickets.get(ticket_id)
        if ticket is None:
            raise BookkeepingError(f"I1: ticket {ticket_id} is not open")
        return ticket

    def _refuse(self, ticket: Ticket, kind: RefusalKind, detail: str, now: float) -> None:
        self.matching.leave_room(ticket, now)
        ticket.over = True
        # When about one more call will have ended; between 1 s and a minute, because clients obey
        # this literally.
        retry_after_s = None if kind in HOPELESS else min(60, max(1, round(self._service_s)))
        self.matching.out.append(Refuse(ticket.id, kind, detail, retry_after_s))

    def _serve_light(self, ticket: Ticket, now: float) -> None:
        """A light request takes no slot and never waits. The first of those that know what it asks
        for answers, the same one as long as it is there: one house, one answer.
        """
        ready = ready_for_light(ticket, self._fleet)
        if ready:
            prefers = ticket.opened.prefers
            first = min(ready, key=lambda one: (one.report.engine_kind not in prefers, one.id))
            self.matching.grant(ticket, first, "a light request takes no slot", now)
        elif ticket.last_failure is not None:
            detail = refusals.attempts_spent(ticket, ticket.last_failure)
            self._refuse(ticket, RefusalKind.ATTEMPTS_SPENT, detail, now)
        else:
            self._refuse_for(ticket, self.hope.unserved(ticket.model), now)

    # Who waits in vain is told so

    def judge_everyone(self, now: float) -> None:
        """After a change of a node: whoever waits for what can no longer come is told so."""
        for waited in self.room.names():
            name = self._renamed(waited)
            if self.matching.measure_again(name):
                for ticket in self.room.all(name):
                    self._judge_length(ticket, now)
            self._judge(name, now)
            line = self.room.line(name)
            if line is not None and line.few:
                # Whoever avoids a node does so only while another one is at hand.
                self.matching.stir(name)

    def _renamed(self, name: ModelName) -> ModelName:
        """The line in which those stand from now on who wait for this name, which no node had yet
        heard of when they came.
        """
        meant = self._fleet.meant(name)
        if meant != name:
            self.room.rename(name, meant)
            self.hope.forget(name)
            self.matching.stir(meant)
        return meant

    def judge_hope(self, name: ModelName, now: float) -> None:
        """Refuse those who wait for a model that no node could serve now or soon."""
        if self.room.line(name) is None:
            self.hope.forget(name)
        elif not self.hope.of_name(name, now):
            self._give_up(name, now)

    def hope_due(self, name: ModelName, now: float) -> None:
        """The grace of a model that nobody could serve is over; it may just be tried again."""
        if not self._fleet.any_hope(name):
            self._give_up(name, now)

    def _give_up(self, name: ModelName, now: float) -> None:
        for ticket in self.room.all(name):
            self._refuse_for(ticket, self.hope.unserved(name), now)

    def start_due(self, now: float) -> None:
        """The grace after the start is over."""
        for name in self.room.names():
            self._judge(name, now)

    def patience_due(self, ticket_id: TicketId) -> None:
        """A ticket has waited beside a free slot for as long as it may."""
        ticket = self._ticket(ticket_id)
        self.matching.stir(ticket.name)

    def wait_due(self, ticket: Ticket, now: float) -> None:
        """The wait limit of a ticket has passed."""
        detail = refusals.waited_too_long(self._limits.wait_limit_s)
        self._refuse(ticket, RefusalKind.WAITED_TOO_LONG, detail, now)

    def _judge(self, name: ModelName, now: float) -> None:
        line = self.room.line(name)
        for ticket in [] if line is None else list(line.few):
            self._judge_pin(ticket, now)
        if self._fleet.locked(name):
            for ticket in self.room.all(name):
                self._judge_key(ticket, now)
            self.matching.stir(name)  # those who want a key may not have counted before
        self.judge_hope(name, now)

    def _judge_key(self, ticket: Ticket, now: float) -> bool:
        """Refuse a ticket that nobody serves without a key; whether it may go on."""
        in_vain = self.hope.of_key(ticket, now)
        if in_vain is not None:
            self._refuse_for(ticket, in_vain, now)
        return in_vain is None

    def _judge_length(self, ticket: Ticket, now: float) -> bool:
        """Refuse a ticket whose prompt fits into no context window; whether it may go on."""
        largest = too_long(ticket, self._fleet, self.matching.outlook.estimates)
        if largest is None or ticket.pin is not None:
            return True
        detail = refusals.too_long(ticket.opened.prompt.chars, largest, ticket.name)
        self._refuse(ticket, RefusalKind.TOO_LONG, detail, now)
        return False

    def _judge_pin(self, ticket: Ticket, now: float) -> bool:
        """Refuse a ticket whose pin cannot hold; whether it may go on."""
        pin, in_vain = ticket.pin, self.hope.of_pin(ticket, now)
        if ticket.pin != pin and ticket.waiting_since is not None:
            self.room.replace(ticket)
        if in_vain is not None:
            self._refuse_for(ticket, in_vain, now)
        return in_vain is None

    def _refuse_for(self, ticket: Ticket, in_vain: InVain, now: float) -> None:
        self._refuse(ticket, in_vain.kind, in_vain.detail, now)
