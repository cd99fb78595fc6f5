"""The strategies by the names that users write: the one list."""

from __future__ import annotations

from collections.abc import Callable

from pair.core.affinity import KvAware, PrefixAware, Session
from pair.core.finish_time import FinishTime
from pair.core.queue_depth import QueueDepth, RoundRobin
from pair.core.strategy import Strategy
from pair.errors import SettingsError

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    FinishTime.name: FinishTime,
    QueueDepth.name: QueueDepth,
    PrefixAware.name: PrefixAware,
    KvAware.name: KvAware,
    Session.name: Session,
    RoundRobin.name: RoundRobin,
}


def strategy_named(name: str) -> Strategy:
    """Make the strategy of this name.

    Raises:
        SettingsError: there is none; the text lists those that exist.
    """
    make = STRATEGIES.get(name)
    if make is None:
        raise SettingsError(
            f"strategy {name!r} does not exist; choose one of {', '.join(STRATEGIES)}"
        )
    return make()
