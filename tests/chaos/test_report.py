from __future__ import annotations

import pytest

from tests.chaos.report import memory, put_section
from tests.chaos.watch import Size


def test_a_section_takes_the_place_of_its_like_and_of_nothing_else() -> None:
    page = put_section("# Page\n\nWords.\n", "## Seed 1\n\none\n")
    page = put_section(page, "## Seed 2\n\ntwo\n")
    assert page == "# Page\n\nWords.\n\n## Seed 1\n\none\n\n## Seed 2\n\ntwo\n"
    page = put_section(page, "## Seed 1\n\nnew\n")
    assert page == "# Page\n\nWords.\n\n## Seed 1\n\nnew\n\n## Seed 2\n\ntwo\n"


def test_memory_is_judged_after_the_warm_up() -> None:
    sizes = [Size(float(at), at * 10, 1000 if at < 25 else 2000 + at, 20) for at in range(100)]
    grown = memory(sizes, Size(0, 0, 900, 20), Size(200, 1000, 2048, 21))
    assert grown.per_1000_calls_kib == pytest.approx(100)
    assert grown.warm_mib == pytest.approx(2.0, abs=0.1)
    assert (grown.end_mib, grown.files_before, grown.files_after) == (2.0, 20, 21)
