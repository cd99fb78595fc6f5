"""Who holds the beginning of a prompt, compared with a plain table of what was added."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pair.core.prefix_holders import Holders

# Chained: a number stands for all before it, so a path through a tree is a prompt.
_PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(
    lambda steps: tuple(hash(tuple(steps[: at + 1])) for at in range(len(steps)))
)
_REPLICAS = st.integers(0, 4)


@given(st.lists(st.tuples(_REPLICAS, _PATHS), max_size=12), st.data())
def test_depths_are_those_of_a_plain_table(
    added: list[tuple[int, tuple[int, ...]]], data: st.DataObject
) -> None:
    holders = Holders()
    for replica, path in added:
        holders.add(replica, path)
    gone = data.draw(
        st.lists(st.sampled_from(range(len(added))), unique=True) if added else st.just([])
    )
    for at in gone:
        holders.remove(*added[at])
    kept = [one for at, one in enumerate(added) if at not in gone]
    asked = data.draw(_PATHS)

    depths: Counter[int] = Counter()
    for replica, path in kept:
        shared = sum(1 for one, other in zip(path, asked, strict=False) if one == other)
        depths[replica] = max(depths[replica], shared)
    assert {replica: holders.depth(replica, asked) for replica in range(5)} == {
        replica: depths[replica] for replica in range(5)
    }
    assert len(holders) == len({fingerprint for _, path in kept for fingerprint in path})


def test_what_is_removed_as_often_as_added_leaves_nothing() -> None:
    holders = Holders()
    for replica in (1, 1, 2):
        holders.add(replica, (10, 20))
    for replica in (1, 2, 1):
        holders.remove(replica, (10, 20))

    assert len(holders) == 0
    assert 10 not in holders
