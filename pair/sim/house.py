"""The simulated house: its machines as proxies meet them, what befalls them, and what they say of
themselves.

Calls and their answers take no time on the way; a report that a machine sends of its own accord
does, since two proxies that know everything at once would never collide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, assert_never

from pair.core.decisions import Probe
from pair.core.events import FailureKind, NodeReported, NodeSighted, ProbeMissed
from pair.core.reports import NodeReport
from pair.sim.agenda import Agenda
from pair.sim.machines import Incident, Machine, Mishap
from pair.sim.place import Asker, Attempt, Place
from pair.sim.turns import Turns

CONNECT_LIMIT_S = 3.0
"""How long an attempt waits for a machine that is gone, as the relay does by default."""

PUSH_GAP_S = 0.02
"""From one report that a node sends of its own accord to the next; the latest wins."""

PUSH_WAY_S = 0.001
"""How long such a report is on its way: a house's network and two busy event loops."""


class Listener(Asker, Protocol):
    """A proxy, as the house knows it."""

    def feed(self, event: NodeReported | NodeSighted | ProbeMissed) -> None: ...


class House:
    """Machines with names, in the order in which they were given."""

    def __init__(self, agenda: Agenda, machines: Sequence[Machine]) -> None:
        self.places = {machine.id: Place(machine, agenda) for machine in machines}
        self._agenda = agenda
        self._turns = {
            place: Turns(agenda, place.machine.slots, partial(self._turns_changed, place))
            for place in self.places.values()
        }
        self._listeners: list[Listener] = []
        self._streams: dict[Place, list[Listener]] = {place: [] for place in self.places.values()}
        self._pushed_at: dict[Place, float] = {}
        self._pushes: set[Place] = set()
        self._pushed = 0

    def join(self, listener: Listener) -> None:
        """A proxy begins to listen, and sights every machine."""
        self._listeners.append(listener)
        for place in self.places.values():
            listener.feed(_sighted(place))

    # Calls

    def start(self, attempt: Attempt) -> None:
        """A call knocks at a machine; what follows comes as events, never at once."""
        place, now = attempt.place, self._agenda.now
        if not place.up:
            self._agenda.at(now + CONNECT_LIMIT_S, self._unreachable, attempt)
        elif place.free <= self._turns[place].ahead(attempt.asker):
            if place.machine.version:
                self._turns[place].turned_away(attempt.asker)
                self._turns_changed(place)
            self._agenda.at(now, self._turned_away, attempt)
        else:
            place.begin(attempt)
            self._turns[place].came(attempt.asker)
            if attempt.record.load_s:
                self._agenda.at(now + attempt.record.load_s, self._changed, place)
            self._count_changed(place)

    def end(self, attempt: Attempt) -> None:
        """The proxy is done with a call, whatever has become of it."""
        if attempt.place.end(attempt):
            self._count_changed(attempt.place)

    def _unreachable(self, attempt: Attempt) -> None:
        self._fail(attempt, FailureKind.UNREACHABLE, "no route to it")

    def _turned_away(self, attempt: Attempt) -> None:
        if not attempt.over:
            attempt.record.refusals += 1
        self._fail(attempt, FailureKind.BUSY, "all its slots are taken")

    def _fail(self, attempt: Attempt, kind: FailureKind, detail: str) -> None:
        if not attempt.over:
            attempt.asker.failed(attempt, kind, detail)

    # Reports

    def ask(self, listener: Listener, probe: Probe) -> None:
        """A proxy asks a machine for its report."""
        place, now = self.places[probe.node], self._agenda.now
        if place.up and not place.slow:
            self._agenda.at(now, self._answer, (listener, place))
        else:
            self._agenda.at(now + probe.limit_s, self._miss, (listener, place))

    def _answer(self, asked: tuple[Listener, Place]) -> None:
        listener, place = asked
        if not place.up:
            self._miss(asked)
            return
        if place.machine.version and listener not in self._streams[place]:
            self._streams[place].append(listener)
        listener.feed(NodeReported(place.machine.id, self._report(place, listener)))

    def _miss(self, asked: tuple[Listener, Place]) -> None:
        listener, place = asked
        flows = place.up and any(
            attempt.committed and attempt.asker is listener for attempt in place.attempts
        )
        last_byte_at = self._agenda.now if flows else None
        listener.feed(ProbeMissed(place.machine.id, place.up, last_byte_at, "no answer"))

    def _turns_changed(self, place: Place) -> None:
        place.changes += 1
        self._count_changed(place)

    def _count_changed(self, place: Place) -> None:
        self._turns[place].look(len(place.attempts))
        # A proxy that is alone knows what it does itself.
        if len(self._listeners) > 1:
            self._changed(place)

    def _changed(self, place: Place) -> None:
        """What it says now, not what it will have to say when its proxy has sent the next call."""
        if not self._streams[place] or place in self._pushes:
            return
        next_at = self._pushed_at.get(place, -PUSH_GAP_S) + PUSH_GAP_S
        if next_at <= self._agenda.now:
            self._push(place)
        else:
            self._pushes.add(place)
            self._agenda.at(next_at, self._push, place)

    def _push(self, place: Place) -> None:
        self._pushes.discard(place)
        if place.up and not place.slow:
            self._pushed_at[place] = self._agenda.now
            said = [(listener, self._report(place, listener)) for listener in self._streams[place]]
            # Who hears of something first is now one and now another, as in a real network.
            self._pushed += 1
            turn = self._pushed % max(1, len(said))
            way = (place, [*said[turn:], *said[:turn]])
            self._agenda.at(self._agenda.now + PUSH_WAY_S, self._arrive, way)

    def _arrive(self, pushed: tuple[Place, list[tuple[Listener, NodeReport]]]) -> None:
        place, said = pushed
        for listener, report in said:
            if listener in self._streams[place]:
                listener.feed(NodeReported(place.machine.id, report, pushed=True))

    def _report(self, place: Place, listener: Listener) -> NodeReport:
        return place.report(listener, self._turns[place].ahead(listener))

    # Mishaps

    def befall(self, incident: Incident) -> None:
        """Something happens to a machine."""
        place = self.places[incident.machine]
        match incident.mishap:
            case Mishap.DIES:
                place.up = False
                self._streams[place].clear()
                for attempt in place.attempts:
                    attempt.hangs = True
            case Mishap.RETURNS:
                self._break_all(place, place.start_anew, "the machine restarted")
                for listener in self._listeners:
                    listener.feed(_sighted(place))
            case Mishap.SLOWS:
                place.slow = True
            case Mishap.RECOVERS:
                place.slow = False
            case Mishap.RESETS:
                if place.up:
                    self._break_all(place, place.lose_memory, "the engine crashed")
            case _:
                assert_never(incident.mishap)

    def _break_all(self, place: Place, renew: Callable[[], None], detail: str) -> None:
        broken = list(place.attempts)
        for attempt in broken:
            place.end(attempt)
        # The engine is new before anybody hears of it and sends the next call.
        renew()
        self._turns[place].forget()
        for attempt in broken:
            attempt.asker.failed(attempt, FailureKind.RESET, detail)
        self._count_changed(place)


def _sighted(place: Place) -> NodeSighted:
    node = place.machine.id
    return NodeSighted(node, node, (f"sim://{node}",))
