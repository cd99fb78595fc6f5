"""docs/settings.md from `pair.settings`: each knob with its default, its unit and its reason."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import get_args, get_origin, get_type_hints

from pair.cli.knobs import Knob

HEADER = """\
# Settings

Generated from `pair/settings` by `make docs`; do not edit.

Flag > environment variable > `config.toml` > default. Each heading is a section of that file;
`pair settings` shows the values in force, where each comes from, and where the file is. A variable
that takes a list takes it separated by spaces.
"""


def settings_page(settings: type, knobs: Mapping[str, Knob]) -> str:
    """The whole page.

    Args:
        settings: a dataclass with one field a section; a section is a dataclass, or a tuple of them
            for a list of tables, or for one whose keys a user makes up.
        knobs: by `section.name`, or by the section's name alone for a list of tables.
    """
    parts = [HEADER]
    for name, kind in get_type_hints(settings).items():
        if name in knobs and knobs[name].form == "strategy":
            parts.append(_pairs(name, get_args(kind)[0], knobs[name]))
        elif get_origin(kind) is tuple:
            parts.append(_list_of_tables(name, get_args(kind)[0], knobs[name]))
        else:
            parts.append(_section(name, kind, knobs))
    return "\n".join(parts)


def toml_value(value: object) -> str:
    """A default as one writes it in `config.toml`."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case tuple():
            return "[" + ", ".join(toml_value(item) for item in value) + "]"
        case _:
            return str(value)


def _section(name: str, kind: type, knobs: Mapping[str, Knob]) -> str:
    lines = [f"## `[{name}]`", "", _about(kind), ""]
    lines += [
        "| setting | default | unit | what it does, and why this default |",
        "|---|---|---|---|",
    ]
    for field in dataclasses.fields(kind):
        knob = knobs[f"{name}.{field.name}"]
        lines.append(
            f"| `{field.name}`<br>`{knob.variable}` | `{toml_value(knob.default)}` "
            f"| {_unit(knob)} | {_cell(knob.reason)} |"
        )
    return "\n".join([*lines, ""])


def _unit(knob: Knob) -> str:
    return knob.unit if knob.most == math.inf else f"{knob.unit}, {knob.least:g}–{knob.most:g}"


def _pairs(name: str, kind: type, knob: Knob) -> str:
    about = f"{_about(kind)} {knob.reason} Variable: `{knob.variable}`."
    return "\n".join([f"## `[{name}]`", "", about, ""])


def _list_of_tables(name: str, kind: type, knob: Knob) -> str:
    lines = [
        f"## `[[{name}]]`",
        "",
        _about(kind),
        "",
        f"{knob.reason} Variable: `{knob.variable}`.",
        "",
    ]
    lines += ["| setting | default |", "|---|---|"]
    for field in dataclasses.fields(kind):
        required = field.default is dataclasses.MISSING
        lines.append(
            f"| `{field.name}` | {'required' if required else f'`{toml_value(field.default)}`'} |"
        )
    return "\n".join([*lines, ""])


def _about(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
