"""One simulated run: calls come, proxies with the shipped scheduler send them to machines.

Here is only who comes when and what became of everyone; `proxy.py` does what a shell does,
`house.py` and `place.py` what machines do, `agenda.py` is the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pair.core.names import FlowId, TicketId
from pair.core.scheduler import Scheduler
from pair.sim.agenda import Agenda
from pair.sim.house import House
from pair.sim.machines import Incident, Machine
from pair.sim.place import CallRecord
from pair.sim.proxy import Proxy
from pair.sim.workload import NO_FLOW, PlannedCall

WARM_UP_S = 1.0
"""The first call comes this long after the machines, and after a rehearsal, as in a house that is
up and running.
"""

STEP_EVENTS = 2000
"""The world looks up from its work after this many events: some 20 ms."""


class Round:
    """Calls that are made together, and what became of them.

    Attributes:
        first: the ticket of the first one.
    """

    def __init__(self, calls: Sequence[PlannedCall], first: int) -> None:
        self.records = [CallRecord(call) for call in calls]
        self.first = first
        self.closed = 0
        self.followers: dict[int, list[int]] = {}
        for index, call in enumerate(calls):
            if call.follows is not None:
                self.followers.setdefault(call.follows, []).append(index)
        alone = (index for index, call in enumerate(calls) if call.follows is None)
        self.arrivals = sorted(alone, key=lambda index: calls[index].at_s)


class World:
    """One run of one workload on one fleet; made for one `run`.

    Args:
        rehearsal: calls that are answered before, and stand in no record.
        beside: the schedulers of further proxies on the same machines. What continues a call, and
            what belongs to one flow, goes through one proxy; all else is dealt out in turn.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        machines: Sequence[Machine],
        calls: Sequence[PlannedCall],
        incidents: Sequence[Incident] = (),
        *,
        rehearsal: Sequence[PlannedCall] = (),
        beside: Sequence[Scheduler] = (),
    ) -> None:
        self.scheduler = scheduler
        self._agenda = Agenda()
        self._house = House(self._agenda, machines)
        self.places = self._house.places
        self.proxies = [
            Proxy(each, self._agenda, self._house, self._closed) for each in (scheduler, *beside)
        ]
        self._incidents = incidents
        self._measured = Round(calls, 1)
        self._round = Round(rehearsal, len(calls) + 1)
        self.records = self._measured.records
        self._through: dict[TicketId, Proxy] = {}
        self._flows: dict[FlowId, Proxy] = {}
        self._dealt = 0

    @property
    def now(self) -> float:
        """Seconds from the beginning of the world."""
        return self._agenda.now

    def run(self) -> Iterator[int]:
        """Live until every call has its fate; yields now and then how many have theirs."""
        for proxy in self.proxies:
            self._house.join(proxy)
        if self._round.records:
            self._begin()
            yield from self._live()
        self._round = self._measured
        if self._round.records:
            self._begin()
            for incident in self._incidents:
                self._agenda.at(self._agenda.origin + incident.at_s, self._house.befall, incident)
            yield from self._live()

    def _begin(self) -> None:
        self._agenda.origin = self._agenda.now + WARM_UP_S
        self._through.clear()
        self._flows.clear()
        self._expect(0)

    def _live(self) -> Iterator[int]:
        agenda, now_lived, calls = self._agenda, self._round, len(self._round.records)
        while now_lived.closed < calls:
            for _ in range(STEP_EVENTS):
                agenda.go_on()
                if now_lived.closed == calls:
                    break
            yield self._measured.closed

    def _expect(self, place: int) -> None:
        if place < len(self._round.arrivals):
            call = self._round.records[self._round.arrivals[place]].call
            self._agenda.at(self._agenda.origin + call.at_s, self._arrive, place)

    def _arrive(self, place: int) -> None:
        # One after another: a heap that held all arrivals would be slow for everything else.
        self._expect(place + 1)
        self._open(self._round.arrivals[place])

    def _open(self, index: int) -> None:
        record, ticket = self._round.records[index], TicketId(self._round.first + index)
        proxy = self._proxy_for(record.call)
        if index in self._round.followers:
            self._through[ticket] = proxy
        proxy.open(ticket, record)

    def _proxy_for(self, call: PlannedCall) -> Proxy:
        if len(self.proxies) == 1:
            return self.proxies[0]
        if call.follows is not None:
            return self._through[TicketId(self._round.first + call.follows)]
        if call.flow in self._flows:
            return self._flows[call.flow]
        proxy = self.proxies[self._dealt % len(self.proxies)]
        self._dealt += 1
        if call.flow != NO_FLOW:
            self._flows[call.flow] = proxy
        return proxy

    def _closed(self, ticket: TicketId) -> None:
        round_, index = self._round, ticket - self._round.first
        round_.closed += 1
        for follower in round_.followers.get(index, ()):
            call = round_.records[follower].call
            at = max(self._agenda.now + call.after_s, self._agenda.origin + call.at_s)
            self._agenda.at(at, self._open, follower)
