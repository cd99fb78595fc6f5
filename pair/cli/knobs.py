"""One setting: what it is called, what it may be, and whether a value fits.

Apart from `config.py`, which says where values come from, because every source (a flag, a variable,
the file, `pair settings set`) goes through the same check and the same words.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints

from pair.cli.addresses import tcp_address
from pair.core.strategies import STRATEGIES
from pair.discovery.fixed_list import base_url
from pair.errors import SettingsError, UnusableAddress
from pair.proxy.gate import APPS_WORD, LOOPBACK_WORD
from pair.relay.addresses import is_base_url, parse_address
from pair.settings import FixedNode, ModelStrategy, NamedEngine, Settings

NODES: Final = "nodes"
"""The one key that is a list of tables, `[[nodes]]`, instead of a section."""
BY_MODEL: Final = "strategies"
"""The one section whose keys a user makes up: `[strategies]`, a line `"MODEL" = "NAME"` each."""

WHOLE: Final[Mapping[str, tuple[str, str]]] = {
    BY_MODEL: ("strategy", "Strategies of single models, as `MODEL=NAME`; it wins for its model."),
    NODES: ("url", "Engines or nodes that you name, as [[nodes]]; kept whatever mDNS says."),
}
"""The keys without a section: the form of each, and its reason."""

Named = FixedNode | NamedEngine
"""What a user names by its URL, with options behind it."""

TRUE_WORDS: Final = ("1", "true", "yes", "on")
FALSE_WORDS: Final = ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting as a user sees it.

    Attributes:
        key: `section.name` as in `config.toml`, or one of `WHOLE`.
        kind: the field's type: str, bool, int, float, or a tuple of one of str, `Named` and
            `ModelStrategy`.
        unit: "" for names and switches.
        least: the smallest number that makes sense.
        most: the largest one.
        form: what a text must look like, see `pair.settings.knob`.
    """

    key: str
    kind: Any
    default: Any
    unit: str
    reason: str
    least: float
    form: str
    most: float = math.inf

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"PAIR_{self.key.replace('.', '_')}".upper()

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return get_origin(self.kind) is tuple


@cache
def knobs() -> Mapping[str, Knob]:
    """Every knob by key, in the order of `pair/settings`."""
    found: dict[str, Knob] = {}
    for section, kind in get_type_hints(Settings).items():
        if section in WHOLE:
            form, reason = WHOLE[section]
            found[section] = Knob(section, kind, (), "", reason, 0, form)
            continue
        hints = get_type_hints(kind)
        for each in fields(kind):
            key = f"{section}.{each.name}"
            found[key] = Knob(key, hints[each.name], each.default, **each.metadata)
    return found


def knob_named(key: str) -> Knob:
    """The knob of this key.

    Raises:
        SettingsError: there is none; the text names the nearest.
    """
    knob = knobs().get(key)
    if knob is None:
        raise SettingsError(unknown(key, "setting", key, knobs()))
    return knob


def value_of(settings: Settings, key: str) -> Any:
    """The value of one knob; the key must exist."""
    section, _, name = key.partition(".")
    part = getattr(settings, section)
    return getattr(part, name) if name else part


def checked(knob: Knob, value: Any) -> Any:
    """The value in the knob's type; text is read as people write it, a list separated by spaces.

    Raises:
        SettingsError: naming the key, the value and what would be right.
    """
    try:
        return _several(knob, value) if knob.is_list else _one(knob.kind, knob, value)
    except SettingsError as fault:
        raise SettingsError(f"{knob.key} {fault}") from None


def unknown(shown: str, kind: str, word: str, known: Iterable[str]) -> str:
    """A sentence that `shown` does not exist, with the word of `known` nearest to `word`."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"{shown} is not a {kind}" + (f"; the nearest one is {near[0]}" if near else "")


# --- each raises SettingsError with the end of a sentence that begins with the key ----------------


def _several(knob: Knob, value: Any) -> tuple[Any, ...]:
    pieces = value.split() if isinstance(value, str) else value
    if knob.key == BY_MODEL and isinstance(pieces, Mapping):
        pieces = list(pieces.items())
    if not isinstance(pieces, list | tuple):
        raise SettingsError(f"is {value!r}; right is a list")
    values = tuple(_one(get_args(knob.kind)[0], knob, piece) for piece in pieces)
    urls = [value.url for value in values if isinstance(value, Named)]
    for url in urls:
        if urls.count(url) > 1:
            raise SettingsError(f"has {url} twice; name each once")
    models = [value.model for value in values if isinstance(value, ModelStrategy)]
    for model in models:
        if models.count(model) > 1:
            raise SettingsError(f"has {model} twice; name each once")
    return values


def _one(kind: Any, knob: Knob, value: Any) -> Any:
    if kind in (FixedNode, NamedEngine):
        return _named(kind, value)
    if kind is ModelStrategy:
        return _of_model(value)
    if kind is bool:
        return _switch(value)
    if kind in (int, float):
        return _number(kind, knob, value)
    if not isinstance(value, str):
        raise SettingsError(f"is {value!r}; right is text")
    match knob.form:
        case "strategy":
            return _strategy(value)
        case "address":
            return _address(value)
        case "port":
            return _port(value)
        case "url":
            return _url(value)
        case "origin":
            return _origin(value)
        case _:
            return value


def _strategy(name: str) -> str:
    if name not in STRATEGIES:
        sentence = unknown(repr(name), "strategy", name, STRATEGIES)
        raise SettingsError(f"is wrong: {sentence}; there are {', '.join(STRATEGIES)}")
    return name


def _of_model(value: Any) -> ModelStrategy:
    """From `MODEL=NAME`, or from a pair as a table has it; a model's name may contain a `=`."""
    if isinstance(value, ModelStrategy):
        return value
    if isinstance(value, str):
        model, _, name = value.rpartition("=")
    elif isinstance(value, tuple) and len(value) == 2:
        model, name = value
    else:
        model = name = ""
    if not model or not isinstance(name, str):
        raise SettingsError(
            f'has {value!r}; right is MODEL=NAME, in the file a line "MODEL" = "NAME"'
        )
    return ModelStrategy(model, _strategy(name))


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in TRUE_WORDS + FALSE_WORDS:
        return value.lower() in TRUE_WORDS
    raise SettingsError(f"is {value!r}; right is true or false")


def _number(kind: type[int] | type[float], knob: Knob, value: Any) -> int | float:
    unit = f" of {knob.unit}" if knob.unit else ""
    right = f"{'a whole number' if kind is int else 'a number'}{unit}, at least {knob.least:g}"
    if knob.most < math.inf:
        right += f" and at most {knob.most:g}"
    wrong = SettingsError(f"is {value!r}; right is {right}")
    if isinstance(value, str):
        try:
            value = kind(value)
        except ValueError:
            raise wrong from None
    fits = isinstance(value, int) if kind is int else isinstance(value, int | float)
    if not fits or isinstance(value, bool) or not math.isfinite(value):
        raise wrong
    if not knob.least <= value <= knob.most:
        raise wrong
    return kind(value)


def _address(text: str) -> str:
    try:
        parse_address(text)
    except UnusableAddress as fault:
        raise SettingsError(f"is wrong: {fault}; such as 127.0.0.1:7247 or [::1]:7247") from None
    return text


def _port(text: str) -> str:
    try:
        tcp_address(text)
    except UnusableAddress as fault:
        raise SettingsError(f"is wrong: {fault}; such as 127.0.0.1:7248 or [::1]:7248") from None
    return text


def _url(text: str) -> str:
    if not is_base_url(text):
        raise SettingsError(f"has {text!r}; right is a URL such as http://192.168.1.20:11434")
    return text.rstrip("/")


def _origin(text: str) -> str:
    """As browsers write it: a scheme and a machine, without a path."""
    scheme, separator, authority = text.partition("://")
    words = ("*", "null", LOOPBACK_WORD, APPS_WORD)
    if text in words or (scheme and separator and authority and "/" not in authority):
        return text
    raise SettingsError(
        f"has {text!r}; right is loopback, apps, * or an origin such as https://chat.example.org"
    )


_KEY_WORDS: Final = ("key", "api_key", "token")
_OPTION_WORDS: Final = {
    "slots": "N",
    "name": "NAME",
    "key_env": "VARIABLE",
    "key_file": "PATH",
}


def _options(kind: type[Named]) -> list[str]:
    return [each.name for each in fields(kind) if each.name != "url"]


def _table(kind: type[Named], text: str) -> dict[str, Any]:
    url, *options = text.split(",")
    table: dict[str, Any] = {"url": url}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            # Not quoted: it may be a key.
            right = ",".join(["URL", *(f"{each}={_OPTION_WORDS[each]}" for each in _options(kind))])
            raise SettingsError(
                f"has something after a URL that is no name=value; right is {right}"
            )
        table[key] = int(value) if key == "slots" and value.isdecimal() else value
    return table


def _named(kind: type[Named], value: Any) -> Named:
    """From a TOML table, or from text as on the command line: `URL,name=value`."""
    if isinstance(value, kind):
        return value
    table = _table(kind, value) if isinstance(value, str) else value
    options = _options(kind)
    if not isinstance(table, Mapping):
        raise SettingsError(f"has {value!r}; right is a table with url, {', '.join(options)}")
    for key in table:
        if key in _KEY_WORDS:
            raise SettingsError(
                f"has an entry with {key}; a key is never written here, where others see it: put it"
                " in a variable (key_env=NAME) or in a file (key_file=PATH)"
            )
        if key not in ("url", *options):
            raise SettingsError(f"has an entry in which {unknown(key, 'setting', key, options)}")
    url, slots = table.get("url"), table.get("slots", 0)
    if not isinstance(url, str):
        raise SettingsError("has an entry without a url")
    if not isinstance(slots, int) or isinstance(slots, bool) or slots < 0:
        raise SettingsError(f"has slots {slots!r}; right is a whole number, 0 to ask the engine")
    for key in options:
        if key != "slots" and not isinstance(table.get(key, ""), str):
            raise SettingsError(f"has an entry whose {key} is no text")
    if table.get("key_env") and table.get("key_file"):
        raise SettingsError(f"has both key_env and key_file for {url}; one is enough")
    if kind is NamedEngine:
        return NamedEngine(**{**table, "url": _url(url)})
    try:
        return FixedNode(**{**table, "url": base_url(url)})
    except SettingsError as fault:
        raise SettingsError(f"is wrong: {fault}") from None


def named_text(named: Named | ModelStrategy) -> str:
    """The one text form of it, which `checked` reads again."""
    if isinstance(named, ModelStrategy):
        return f"{named.model}={named.strategy}"
    options = ((each, getattr(named, each)) for each in _options(type(named)))
    return ",".join([named.url, *(f"{option}={value}" for option, value in options if value)])
