"""What a field keeps of its knob; that a user's value must fit it is tests/cli/test_knobs.py."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from pair.settings import knob


@dataclass(frozen=True)
class Kettle:
    boil_s: float = knob(90.0, "s", "Tea wants it.", least=1, most=300)
    name: str = knob("", "", "For people.")


def test_a_field_has_its_default_and_says_its_bounds() -> None:
    assert Kettle() == Kettle(90.0, "")
    boil, name = fields(Kettle)
    assert (boil.metadata["least"], boil.metadata["most"]) == (1, 300)
    assert (name.metadata["least"], name.metadata["most"]) == (0, math.inf)
    assert (boil.metadata["unit"], name.metadata["form"]) == ("s", "")
