"""Settings in four layers: flag > environment > file > default.

Each layer is read into the same form, one raw value a key with the place where it stands, so that
one function checks them all and an error can say where to look. What is wrong is collected and told
together, because fixing one mistake a run is tiresome.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from pair.cli.exit_codes import UsageFault, usage
from pair.cli.knobs import BY_MODEL, NODES, WHOLE, checked, knobs, unknown
from pair.errors import SettingsError
from pair.settings import Settings


@dataclass(frozen=True, slots=True)
class Given:
    """A value that a layer gives, not yet checked.

    Attributes:
        value: text from the environment, else as TOML or typer made it.
        place: for people, such as `--strategy` or `[proxy] in /home/…/config.toml`.
    """

    value: Any
    place: str


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says, by key, and what is wrong with its keys.

    Attributes:
        flags: it is the command line, so that what is wrong in it is wrong usage.
    """

    given: Mapping[str, Given] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    flags: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """The settings and where each came from.

    Attributes:
        places: by key; a key that is not there has its default.
        file: the file that was read, or would be if there were one.
        warnings: sentences about variables that look like a misspelt setting.
    """

    settings: Settings
    places: Mapping[str, str]
    file: Path
    warnings: tuple[str, ...] = ()


def load(
    flags: Mapping[str, Given], *, environ: Mapping[str, str], file: Path, must_exist: bool
) -> Config:
    """Read the file, put the layers over each other and check every value.

    Args:
        flags: by key; a value of None or an empty list counts as not given.
        must_exist: the user named the file, so that its absence is an error.

    Raises:
        SettingsError: with every problem found, one a line.
        UsageFault: the same, where a flag is among them.
    """
    with usage() if must_exist else nullcontext():
        text = file_text(file, must_exist=must_exist)
    given_flags = {key: given for key, given in flags.items() if given.value not in (None, [])}
    layers = (file_layer(text, file), environment_layer(environ), Layer(given_flags, flags=True))
    settings, places = layered(layers)
    return Config(settings, places, file, misspelt(environ))


def file_text(file: Path, *, must_exist: bool) -> str:
    """The text of a `config.toml`, "" where there is none.

    Raises:
        SettingsError: it cannot be read, or is not there although it must.
    """
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        if must_exist:
            raise SettingsError(f"there is no file {file}") from None
        return ""
    except (OSError, UnicodeDecodeError) as fault:
        raise SettingsError(f"cannot read {file}: {fault}") from fault


def file_layer(text: str, file: Path) -> Layer:
    """The layer of a `config.toml`; keys that no setting has are problems."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        return Layer(problems=(f"{file} is not TOML: {fault}",))
    given: dict[str, Given] = {}
    problems: list[str] = []
    sections = {key.partition(".")[0] for key in knobs()}
    for section, content in document.items():
        if section == NODES:
            given[NODES] = Given(content, f"[[{NODES}]] in {file}")
        elif section == BY_MODEL:
            given[BY_MODEL] = Given(content, f"[{BY_MODEL}] in {file}")
        elif section not in sections:
            problems.append(f"{file}: {unknown(f'[{section}]', 'section', section, sections)}")
        elif not isinstance(content, dict):
            problems.append(f"{file}: {section} must be a section, written as [{section}]")
        else:
            names = [key.partition(".")[2] for key in knobs() if key.startswith(f"{section}.")]
            for name, value in content.items():
                if name in names:
                    given[f"{section}.{name}"] = Given(value, f"[{section}] in {file}")
                else:
                    sentence = unknown(f"{name} in [{section}]", "setting", name, names)
                    problems.append(f"{file}: {sentence}")
    return Layer(given, tuple(problems))


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """The layer of variables such as `PAIR_PROXY_STRATEGY`; an empty one counts as not set."""
    return Layer(
        {
            key: Given(environ[knob.variable], knob.variable)
            for key, knob in knobs().items()
            if environ.get(knob.variable)
        }
    )


def misspelt(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences about variables that look like a setting and are none.

    Only warnings: container runtimes set such as `PAIR_PROXY_PORT` for links of their own.
    """
    known = [knob.variable for knob in knobs().values()]
    starts = tuple(
        {f"PAIR_{key.partition('.')[0]}_".upper() for key in knobs() if key not in WHOLE}
    )
    return tuple(
        unknown(f"the variable {name}", "setting", name, known)
        for name in sorted(environ)
        if name not in known and name.startswith(starts)
    )


def layered(layers: Sequence[Layer]) -> tuple[Settings, Mapping[str, str]]:
    """Settings from layers, the strongest last, and the place of each key that some layer gives.

    Raises:
        SettingsError: with every problem of every layer, one a line; a value that a stronger layer
            hides must be right all the same.
        UsageFault: the same, where a flag is among them.
    """
    kind_of_fault = SettingsError
    problems = [problem for layer in layers for problem in layer.problems]
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for layer in layers:
        for key, given in layer.given.items():
            try:
                values[key] = checked(knobs()[key], given.value)
            except SettingsError as fault:
                problems.append(f"{given.place}: {fault}")
                kind_of_fault = UsageFault if layer.flags else kind_of_fault
            places[key] = given.place
    if problems:
        raise kind_of_fault("\n".join(problems))
    parts: dict[str, Any] = {}
    for section, kind in get_type_hints(Settings).items():
        if isinstance(kind, type):
            start = f"{section}."
            mine = {key[len(start) :]: values[key] for key in values if key.startswith(start)}
            parts[section] = kind(**mine)
        elif section in values:
            parts[section] = values[section]
    return Settings(**parts), places
