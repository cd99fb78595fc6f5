"""Which replicas hold which fingerprint: the index behind the question where a prompt is warm.

Separate from the caches because it is asked the other way round: a cache knows what one replica
holds, this knows who holds the beginning of a prompt, without walking over the replicas. What a
replica holds is closed towards the beginning (no block without the one before it), so depths are
found by bisection.

Nearly every block lies on one replica only, and a table for each would cost 230 bytes: those that
have one holder and those that have several are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


class Holders:
    """Fingerprints by their holders; a replica is a number here, and may hold one several times.

    Bounded by its users: it keeps what was added and not removed.
    """

    def __init__(self) -> None:
        self._only: dict[int, int] = {}
        self._several: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        """Different fingerprints."""
        return len(self._only) + len(self._several)

    def __contains__(self, fingerprint: int) -> bool:
        """Whether anybody holds it, and so all before it."""
        return fingerprint in self._only or fingerprint in self._several

    def add(self, replica: int, fingerprints: Iterable[int]) -> None:
        """Note that the replica holds each of them, once more."""
        only, several = self._only, self._several
        for fingerprint in fingerprints:
            times = several.get(fingerprint)
            if times is None:
                holder = only.pop(fingerprint, None)
                if holder is None:
                    only[fingerprint] = replica
                    continue
                times = several[fingerprint] = {holder: 1}
            times[replica] = times.get(replica, 0) + 1

    def remove(self, replica: int, fingerprints: Iterable[int]) -> None:
        """Take back one `add` of each of them."""
        only, several = self._only, self._several
        for fingerprint in fingerprints:
            times = several.get(fingerprint)
            if times is None:
                del only[fingerprint]
                continue
            times[replica] -= 1
            if not times[replica]:
                del times[replica]
            if len(times) == 1:
                ((holder, left),) = times.items()
                if left == 1:
                    del several[fingerprint]
                    only[fingerprint] = holder

    def depth(self, replica: int, fingerprints: Sequence[int]) -> int:
        """How many of these, from the first on, the replica holds."""
        only, several = self._only, self._several
        if not fingerprints:
            return 0

        def holds(fingerprint: int) -> bool:
            return only.get(fingerprint) == replica or replica in several.get(fingerprint, ())

        return _true_until(lambda at: holds(fingerprints[at]), len(fingerprints))


def _true_until(holds: Callable[[int], bool], end: int) -> int:
    """The first place below `end` where `holds`, true up to somewhere and false after, is false."""
    if not end or not holds(0):
        return 0
    known, limit = 1, end
    while known < limit:
        middle = (known + limit) // 2
        if holds(middle):
            known = middle + 1
        else:
            limit = middle
    return known
