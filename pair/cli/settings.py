"""`pair settings`: every knob, where its value comes from, and changing one for good."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from pair.cli.config import Config, file_text
from pair.cli.config_text import with_value
from pair.cli.environment import own_config, own_folders
from pair.cli.exit_codes import usage
from pair.cli.folders import write_private
from pair.cli.knobs import BY_MODEL, Knob, checked, knob_named, knobs, named_text, value_of
from pair.cli.options import ConfigOption, JsonOption
from pair.cli.output import say, show, show_json, warn
from pair.errors import SettingsError
from pair.settings import FixedNode, ModelStrategy, NamedEngine
from pair.terminal.panels import table_of

SWITCHES: Final = dict.fromkeys(
    ("proxy.strategy", BY_MODEL), "; `pair strategy NAME` switches a running proxy"
)
"""Knob -> how what runs is changed, too; of all others it must be started anew."""

app = typer.Typer(invoke_without_command=True, no_args_is_help=False)

KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="Section and name, such as proxy.strategy; or nodes, or strategies."
    ),
]
ValuesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="VALUE",
        help="The new value; several for a list. A node is URL[,slots=N][,name=NAME]; it, or an"
        " engine, may have ,key_env=VARIABLE or ,key_file=PATH. A model's strategy is MODEL=NAME.",
    ),
]


@app.callback()
def settings(
    context: typer.Context, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Show every setting: its value, its unit and where the value comes from.

    A flag wins over an environment variable (PAIR_SECTION_KEY), that over the file, that over the
    default. `pair settings set` and `unset` change the file.
    """
    context.obj = config
    if context.invoked_subcommand is not None:
        return
    found = own_config({}, config)
    for sentence in found.warnings:
        warn(sentence)
    if as_json:
        show_json({"file": str(found.file), "settings": [_row(found, each) for each in _all()]})
        return
    say(f"file: {found.file}{'' if found.file.exists() else ' (not there yet)'}")
    table = table_of("setting", "value", "unit", "from", "what it does")
    for knob in _all():
        value = value_of(found.settings, knob.key)
        place = found.places.get(knob.key, "default")
        style = "" if knob.key not in found.places else "bold"
        table.add_row(knob.key, Text(_words(value), style=style), knob.unit, place, knob.reason)
    show(table)


@app.command("set")
def set_value(context: typer.Context, key: KeyArgument, values: ValuesArgument) -> None:
    """Set one setting for good, in the file; your comments there stay."""
    with usage():
        knob = knob_named(key)
        if not knob.is_list and len(values) != 1:
            raise SettingsError(f"{key} takes one value, not {len(values)}")
        value = checked(knob, values if knob.is_list else values[0])
    _change(context, knob, value)
    say(f"{key} = {_words(value)}")


@app.command("unset")
def unset_value(context: typer.Context, key: KeyArgument) -> None:
    """Take one setting out of the file, so that it has its default again."""
    with usage():
        knob = knob_named(key)
    _change(context, knob, None)
    say(f"{key} = {_words(knob.default)} (the default)")


def _change(context: typer.Context, knob: Knob, value: Any) -> None:
    file = context.obj or own_folders().config_file
    try:
        text = with_value(file_text(file, must_exist=False), knob.key, value)
    except SettingsError as fault:
        raise SettingsError(f"{file}: {fault}; edit the file yourself") from fault
    # Through a link to the file itself, where a user keeps it elsewhere.
    write_private(file.resolve(), text, replace=True)
    if knob.variable in os.environ:
        warn(f"{knob.variable} is set and wins over {file}")
    warn(f"what runs already goes on as it began{SWITCHES.get(knob.key, '')}")


def _all() -> list[Knob]:
    return list(knobs().values())


def _row(config: Config, knob: Knob) -> dict[str, Any]:
    return {
        "key": knob.key,
        "value": value_of(config.settings, knob.key),
        "default": knob.default,
        "unit": knob.unit,
        "from": config.places.get(knob.key, "default"),
        "variable": knob.variable,
        "reason": knob.reason,
    }


def _words(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return " ".join(_words(each) for each in value) or "(none)"
        case FixedNode() | NamedEngine() | ModelStrategy():
            return named_text(value)
        case float():
            return f"{value:g}"
        case _:
            return str(value)
