"""Which replicas hold a model name, and which of them could take a ticket now.

An index over the membership, kept apart because the dispatch of a ticket must not walk over all
nodes: the scheduler says which replica changed, and this keeps the free ones of each name at hand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pair.core.membership import Node
from pair.core.names import NO_NAME, EngineName, ModelName, NodeId, Phase, ReplicaId
from pair.core.replica import Replica
from pair.core.reports import ReplicaReport, ReplicaState

_HOPEFUL_PHASES = frozenset({Phase.READY, Phase.LOADING, Phase.SUSPECT})


_ByName = dict[ModelName, dict[Replica, None]]


class Fleet:
    """All replicas by the names that clients use. Bounded by the nodes times their models.

    A replica that wants a key which `pair` does not have counts only where no other holds the
    model: nearly every client sends some key, most of them made up, so it would draw calls away
    from those who serve everybody.
    """

    def __init__(self, nodes: Mapping[NodeId, Node]) -> None:
        self._nodes = nodes
        self._holders: _ByName = {}
        self._free: _ByName = {}
        self._keyed_holders: _ByName = {}
        self._keyed_free: _ByName = {}
        self._names: dict[Replica, tuple[ModelName, ...]] = {}
        self._keyed: set[Replica] = set()
        self._ready: set[Replica] = set()
        self._hopeful: set[Replica] = set()
        self._windows: dict[ModelName, tuple[tuple[int, ...], bool]] = {}
        self.version = 0
        """Moves on whenever somebody became ready, is so no longer or changed size; whoever kept a
        copy then looks again.
        """

    def holders(self, name: ModelName | None) -> Collection[Replica]:
        """Everyone who holds the model, whatever its state, and counts; None asks for everyone at
        all.
        """
        if name is None:
            return [one for one in self._names if one not in self._keyed] or self._names.keys()
        return (self._holders.get(name) or self._keyed_holders.get(name, {})).keys()

    def concerned(self, name: ModelName | None) -> Collection[Replica]:
        """The same with those who do not count for want of a key."""
        if name is None:
            return self._names.keys()
        return [*self._holders.get(name, ()), *self._keyed_holders.get(name, ())]

    def locked(self, name: ModelName) -> bool:
        """Whether everyone who holds the model wants a key of the client's."""
        return name in self._keyed_holders and name not in self._holders

    def everyone(self) -> Collection[Replica]:
        """Every replica in the house."""
        return self._names.keys()

    def model_of(self, name: ModelName) -> ModelName:
        """What the first of those who hold it call it themselves: under which things are learned of
        a model that clients ask for by several names.
        """
        holder = next(iter(self.holders(name)), None)
        return name if holder is None else holder.id.model

    def replica(self, replica_id: ReplicaId) -> Replica | None:
        """The one of this id, None where its node does not list it (any more)."""
        node = self._nodes.get(replica_id.node)
        found = None if node is None else node.replicas.get((replica_id.engine, replica_id.model))
        return found if found in self._names else None

    def free(self, name: ModelName) -> Collection[Replica]:
        """Those that could take a ticket for this name right now."""
        return (self._keyed_free if self.locked(name) else self._free).get(name, {}).keys()

    def windows(self, name: ModelName) -> tuple[tuple[int, ...], bool]:
        """The different context windows (tokens) of those who hold the model, smallest first, and
        whether somebody's is not known. Only of those for which waiting makes sense, if there are
        any: the only one with room may be gone for good.
        """
        found = self._windows.get(name)
        if found is None:
            holders = self.holders(name)
            hopeful = [replica for replica in holders if replica in self._hopeful]
            said = {replica.report.context_tokens for replica in hopeful or holders}
            known = sorted(tokens for tokens in said if tokens is not None)
            found = self._windows[name] = (tuple(known), None in said)
        return found

    def names(self) -> tuple[ModelName, ...]:
        """Every name that somebody holds, aliases included."""
        return tuple({**self._holders, **self._keyed_holders})

    def meant(self, name: ModelName) -> ModelName:
        """The name itself where somebody holds it. Where the house has but one model, and every
        engine takes any name for it, that model: so those engines' clients are used to it, who name
        what they like or nothing. A second model, or another engine, would make it a guess.
        """
        if name in self._holders or name in self._keyed_holders:
            return name
        only: ModelName | None = None
        for replica in self._names:
            if not replica.report.any_name or only not in (None, replica.id.model):
                return name
            only = replica.id.model
        return name if only is None else only

    def names_of(self, replica: Replica) -> tuple[ModelName, ...]:
        return self._names.get(replica, ())

    def index(self, replica: Replica) -> None:
        """Take in a replica that is new or whose names have changed, or drop one that is no longer
        listed.
        """
        self.version += 1
        self._windows.clear()
        self._ready.discard(replica)
        self._hopeful.discard(replica)
        for name in self._names.pop(replica, ()):
            for index in (self._holders, self._free, self._keyed_holders, self._keyed_free):
                _discard(index, name, replica)
        self._keyed.discard(replica)
        node = self._nodes.get(replica.id.node)
        if node is None or not replica.listed:
            return
        self._names[replica] = replica.names
        if replica.keyed:
            self._keyed.add(replica)
        holders = self._keyed_holders if replica.keyed else self._holders
        for name in replica.names:
            holders.setdefault(name, {})[replica] = None

    def refresh(self, replica: Replica, now: float) -> bool:
        """Note whether the replica could take a ticket now; True if it can."""
        if replica in self._names and replica.keyed != (replica in self._keyed):
            self.index(replica)
        names = self._names.get(replica, ())
        ready = bool(names) and self.ready(replica)
        if ready != (replica in self._ready):
            self.version += 1
            (self._ready.add if ready else self._ready.discard)(replica)
        hopeful = bool(names) and self.hopeful(replica)
        if hopeful != (replica in self._hopeful):
            self._windows.clear()
            (self._hopeful.add if hopeful else self._hopeful.discard)(replica)
        open_now = ready and replica.takes_more(now)
        free = self._keyed_free if replica in self._keyed else self._free
        for name in names:
            if open_now:
                free.setdefault(name, {})[replica] = None
            else:
                _discard(free, name, replica)
        return open_now

    def ready(self, replica: Replica) -> bool:
        """Whether the replica answers and its node is ready, busy or not (all that a light request
        needs).
        """
        node = self._nodes.get(replica.id.node)
        return node is not None and node.phase is Phase.READY and replica.answers

    def in_doubt(self, replica: Replica) -> bool:
        """Whether its node has let the latest probe pass."""
        node = self._nodes.get(replica.id.node)
        return node is None or node.misses > 0

    def without_models(self) -> list[Replica]:
        """A stand-in for each engine that answers and says that it holds no model, such as a
        llama.cpp started for its tools only. Light requests may go there; nothing is counted.
        """
        return [
            Replica(
                ReplicaId(node.id, EngineName(""), NO_NAME),
                node.name,
                ReplicaReport(EngineName(""), "", NO_NAME),
            )
            for node in self._nodes.values()
            if node.phase is Phase.READY
            and not node.prompt
            and not node.warnings
            and not any(replica.listed for replica in node.replicas.values())
        ]

    def hopeful(self, replica: Replica) -> bool:
        """Whether waiting for this replica makes sense: it is up, or on its way up, or may be back
        in a moment.
        """
        node = self._nodes.get(replica.id.node)
        return (
            node is not None
            and node.phase in _HOPEFUL_PHASES
            and replica.listed
            and replica.report.state is not ReplicaState.DOWN
        )

    def at_hand(self, replica: Replica) -> bool:
        """Hopeful, and not for as long as it takes to load a model."""
        node = self._nodes.get(replica.id.node)
        return node is not None and node.phase in (Phase.READY, Phase.SUSPECT) and replica.answers

    def any_hope(self, name: ModelName) -> bool:
        """Whether waiting for the model makes sense. One that fails and fails counts only while a
        call is on trial there: else each that waits would be tried, one a pause, for hours.
        """
        return any(
            self.hopeful(replica) and (not replica.given_up or replica.on_trial)
            for replica in self.holders(name)
        )


def _discard(index: _ByName, name: ModelName, replica: Replica) -> None:
    there = index.get(name)
    if there is not None:
        there.pop(replica, None)
        if not there:
            del index[name]
