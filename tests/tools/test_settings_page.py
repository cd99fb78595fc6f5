"""The page of the settings has a row for each knob and shows defaults as one writes them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pair.cli.knobs import Knob, knobs
from pair.settings import Settings
from tools.settings_page import settings_page, toml_value


@dataclass(frozen=True)
class Kitchen:
    """Where the kettle stands."""

    boil_s: float = 90.0


@dataclass(frozen=True)
class Cup:
    """A cup that you name."""

    name: str
    sugars: int = 0


@dataclass(frozen=True)
class House:
    """Two sections, one of them a list of tables."""

    kitchen: Kitchen = field(default_factory=Kitchen)
    cups: tuple[Cup, ...] = ()


KNOBS = {
    "kitchen.boil_s": Knob("kitchen.boil_s", float, 90.0, "s", "Tea | coffee.", 0, ""),
    "cups": Knob("cups", tuple[Cup, ...], (), "", "Cups by name.", 0, ""),
}


def test_a_section_has_a_row_with_default_unit_and_reason() -> None:
    part = settings_page(House, KNOBS).split("## `[kitchen]`")[1].split("\n## ")[0]
    assert "Where the kettle stands." in part
    assert "| `boil_s`<br>`PAIR_KITCHEN_BOIL_S` | `90.0` | s | Tea \\| coffee. |" in part


def test_a_list_of_tables_says_which_fields_are_required() -> None:
    part = settings_page(House, KNOBS).split("## `[[cups]]`")[1]
    assert "Cups by name. Variable: `PAIR_CUPS`." in part
    assert "| `name` | required |\n| `sugars` | `0` |" in part


def test_a_section_of_the_users_own_keys_and_bounds_are_told() -> None:
    page = settings_page(Settings, knobs())
    part = page.split("## `[strategies]`")[1].split("\n## ")[0]
    assert "Variable: `PAIR_STRATEGIES`." in part
    assert "| `4096` | characters, 1024–65536 |" in page


def test_every_knob_of_pair_is_on_the_page() -> None:
    page = settings_page(Settings, knobs())
    assert [key for key, knob in knobs().items() if f"`{knob.variable}`" not in page] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (1.5, "1.5"), ("", '""'), (("a", "b"), '["a", "b"]'), ((), "[]")],
)
def test_a_default_is_shown_as_toml(value: object, text: str) -> None:
    assert toml_value(value) == text
