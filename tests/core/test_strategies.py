from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.strategies import STRATEGIES, strategy_named
from pair.core.strategy import Choice
from pair.errors import SettingsError
from tests.core.test_queue_depth import asked, outlook, with_counts

COUNTS = st.tuples(st.integers(1, 8), st.integers(0, 7), st.integers(0, 7), st.integers(0, 50))


@given(st.lists(COUNTS, min_size=1, max_size=8))
def test_every_strategy_chooses_one_of_the_free_and_changes_no_count(
    counts: list[tuple[int, int, int, int]],
) -> None:
    free = [with_counts(f"n{index}", *count) for index, count in enumerate(counts)]
    for name in STRATEGIES:
        choice = strategy_named(name).choose(asked(), free, outlook(), 0.0)
        assert isinstance(choice, Choice)
        assert choice.replica in free
        assert choice.reason
    assert [(r.report.slots, r.in_flight, r.foreign, r.picked) for r in free] == counts


def test_an_unknown_strategy_is_named_with_those_that_exist() -> None:
    with pytest.raises(SettingsError, match="'random' does not exist; choose one of finish-time"):
        strategy_named("random")
