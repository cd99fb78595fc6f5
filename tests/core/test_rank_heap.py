from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pair.core.rank_heap import FEW, RankHeap


def test_equal_ranks_are_first_come_first() -> None:
    heap: RankHeap[str] = RankHeap()
    for member in "cab":
        heap.put(member, 1)
    assert heap.first() == "c"
    heap.put("c", 1)
    assert heap.first() == "a"


@given(
    st.lists(st.tuples(st.integers(0, 7), st.one_of(st.none(), st.integers(0, 5))), max_size=200)
)
def test_it_is_a_sorted_list(steps: list[tuple[int, int | None]]) -> None:
    heap: RankHeap[int] = RankHeap()
    ranks: dict[int, int] = {}
    for member, rank in steps:
        if rank is None:
            heap.drop(member)
            ranks.pop(member, None)
        else:
            heap.put(member, rank)
            ranks[member] = rank
        first = heap.first()
        assert (first is None) == (not ranks)
        assert first is None or ranks[first] == min(ranks.values())
        assert set(heap.members()) == set(ranks)
        assert len(heap) == len(ranks)
        assert all((member in heap) == (member in ranks) for member in range(8))


def test_dead_entries_are_bounded() -> None:
    """I7, also where nobody ever asks who is first."""
    heap: RankHeap[int] = RankHeap()
    for round_ in range(1000):
        for member in range(10):
            heap.put(member, -round_)
        heap.drop(round_ % 10)
    assert heap.entries <= FEW + 2 * 10
