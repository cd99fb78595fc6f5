"""Whether waiting makes sense: what could still come, and for how long that is believed.

Kept apart from the desk because it only judges: it looks at nodes and times, sets the alarms by
which a grace ends, and says who waits in vain; refusing is the desk's. Waiting must be able to end.
"""

from __future__ import annotations

from dataclasses import dataclass

from pair.core import refusals
from pair.core.alarms import Alarms
from pair.core.decisions import RefusalKind
from pair.core.eligibility import pin_holds
from pair.core.fleet import Fleet
from pair.core.limits import Limits
from pair.core.membership import Membership, Node
from pair.core.names import NO_NAME, ModelName, NodeId, Phase
from pair.core.ticket import Ticket


@dataclass(frozen=True, slots=True)
class InVain:
    """Why a ticket need not wait any longer."""

    kind: RefusalKind
    detail: str


class Hope:
    """Judges by the fleet and the clock; changes nothing but alarms and a ticket's pin."""

    def __init__(
        self, limits: Limits, membership: Membership, fleet: Fleet, alarms: Alarms, *, now: float
    ) -> None:
        self._limits = limits
        self._membership = membership
        self._fleet = fleet
        self._alarms = alarms
        self._started_at = now

    def of_name(self, name: ModelName, now: float) -> bool:
        """Whether a model that somebody waits for could be served now or soon."""
        if self._fleet.any_hope(name):
            self.forget(name)
            return True
        if self._fleet.holders(name):
            # It was here a moment ago: a machine that restarts its engine or wakes up is worth a
            # short wait. Its end is an alarm, which hope that comes meanwhile cancels.
            if ("hope", name) not in self._alarms:
                self._alarms.set(("hope", name), now + self._limits.hopeless_grace_s)
            return True
        return not self.all_known(now)

    def all_known(self, now: float) -> bool:
        """Whether every node has been asked, so that nobody may yet turn out to hold a model."""
        return not (self._starting(now) or self._membership.any_in(Phase.SIGHTED))

    def forget(self, name: ModelName) -> None:
        """Nobody waits for it in vain (any more)."""
        self._alarms.cancel(("hope", name))

    def of_key(self, ticket: Ticket, now: float) -> InVain | None:
        """Why a ticket that brings no key need not wait, where nobody serves its model without."""
        if ticket.opened.brings_key or not self._fleet.locked(ticket.name):
            return None
        return self.unserved(ticket.name) if self.all_known(now) else None

    def of_pin(self, ticket: Ticket, now: float) -> InVain | None:
        """Find the node that a ticket insists on, by id before name; why that can't be, if so."""
        pin, model = ticket.opened.pin, ticket.model
        if pin is None or ticket.pin is None:
            return None
        by_id = self._membership.nodes.get
        node = by_id(NodeId(pin)) or by_id(ticket.pin) or self._membership.named(pin)
        if node is not None:
            if node.answered_at is not None:  # only then is its name its own word
                ticket.pin = node.id
            if pin_holds(node, model, self._fleet):
                return None
        if not ticket.opened.light and self._may_answer_yet(node, now):
            return None
        detail = refusals.unknown_node(self._membership, pin, model)
        return InVain(RefusalKind.UNKNOWN_NODE, detail)

    def unserved(self, model: ModelName | None) -> InVain:
        """Nobody can serve it: either no such model exists in the house, or nobody is there."""
        if model == NO_NAME and self._fleet.names():
            return InVain(RefusalKind.NO_MODEL_NAMED, refusals.no_model_named(self._fleet))
        known = self._fleet.holders(model)
        if model is not None and not known and self._membership.any_in(Phase.READY):
            detail = refusals.unknown_model(self._fleet, model)
            return InVain(RefusalKind.UNKNOWN_MODEL, detail)
        detail = refusals.no_node(self._membership, self._fleet, model)
        return InVain(RefusalKind.NO_NODE, detail)

    def _may_answer_yet(self, node: Node | None, now: float) -> bool:
        """Whether a node that has never answered, or is not known at all (None), is worth a wait:
        just after the start, and while it, or an unknown one that may be it, is being asked.
        """
        if node is not None and node.answered_at is not None:
            return False
        if node is None:
            return self._starting(now) or self._membership.any_in(Phase.SIGHTED)
        return self._starting(now) or node.phase is Phase.SIGHTED

    def _starting(self, now: float) -> bool:
        """Whether the grace after the start still runs; then all are judged anew at its end."""
        ends_at = self._started_at + self._limits.start_grace_s
        if now < ends_at:
            self._alarms.set(("start",), ends_at)
        return now < ends_at
