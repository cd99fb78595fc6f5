from __future__ import annotations

import pytest

from tests.core.house import replica


@pytest.mark.parametrize(
    ("running", "waiting", "counts", "load"),
    [(None, None, False, 0), (0, None, True, 0), (None, 2, True, 2), (3, 1, True, 4)],
)
def test_who_counts_and_what(
    running: int | None, waiting: int | None, counts: bool, load: int
) -> None:
    said = replica(running=running, waiting=waiting)
    assert (said.counts, said.load) == (counts, load)
