"""Changing one setting in the text of a `config.toml` and nothing else of it.

A user's comments and order are theirs, so the text is edited line by line, not written anew. The
edit needs no full grammar, because it is proved: the new text must parse to the old values with
exactly the one change, else the file is left alone and the user is told to edit it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from pair.cli.knobs import BY_MODEL, NODES, named_text
from pair.errors import SettingsError
from pair.settings import FixedNode, ModelStrategy, NamedEngine


def with_value(text: str, key: str, value: Any) -> str:
    """The text with this key set to this (checked) value; None takes the key out.

    Raises:
        SettingsError: the text is not TOML, or writes the key in a way that this cannot edit.
    """
    before = _parsed(text)
    lines = text.rstrip("\n").split("\n") if text.strip("\n") else []
    if key == NODES:
        wanted = [] if value is None else [_table(node) for node in value]
        after = {**before, NODES: wanted} if wanted else _without(before, NODES)
        changed = _with_tables(lines, wanted)
    elif key == BY_MODEL:
        given: Sequence[ModelStrategy] = value or ()
        pairs = {each.model: each.strategy for each in given}
        after = {**before, BY_MODEL: pairs}
        changed = _with_pairs(lines, before.get(BY_MODEL, {}), pairs)
    else:
        section, _, name = key.partition(".")
        content = before.get(section, {})
        if not isinstance(content, Mapping):
            raise SettingsError(f"{section} is not written as a section [{section}]")
        raw = [_plain(each) for each in value] if isinstance(value, tuple) else value
        rest = _without(content, name)
        after = {**before, section: rest if raw is None else {**rest, name: raw}}
        changed = _with_line(lines, section, name, None if raw is None else _literal(raw))
    new = "".join(f"{line}\n" for line in changed)
    if _shape(_parsed(new)) != _shape(after):
        raise SettingsError(f"{key} is written in a way that cannot be changed safely here")
    return new


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise SettingsError(f"it is not TOML: {fault}") from fault


def _shape(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without empty sections, which say nothing."""
    return {key: value for key, value in document.items() if value != {}}


def _without(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


# --- a key of a section ---------------------------------------------------------------------------


def _with_line(lines: list[str], section: str, name: str, literal: str | None) -> list[str]:
    start = _header(lines, rf"\[\s*{section}\s*\]")
    if start is None:
        if literal is None:
            return lines
        gap = [""] if lines and lines[-1].strip() else []
        return [*lines, *gap, f"[{section}]", f"{name} = {literal}"]
    end = _end(lines, start)
    for at in range(start + 1, end):
        if re.match(rf"\s*{re.escape(name)}\s*=", lines[at]):
            after = at + _length(lines[at:end])
            new = [] if literal is None else [f"{name} = {literal}{_comment(lines[at])}"]
            return [*lines[:at], *new, *lines[after:]]
    if literal is None:
        return lines
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1  # keep the blank lines before the next section where they are
    return [*lines[:end], f"{name} = {literal}", *lines[end:]]


def _with_pairs(lines: list[str], before: Any, pairs: Mapping[str, str]) -> list[str]:
    """The lines with exactly these pairs in `[strategies]`; those that stay keep their comments."""
    if not isinstance(before, Mapping):
        raise SettingsError(f"{BY_MODEL} is not written as a section [{BY_MODEL}]")
    for model in [*before, *pairs]:
        wanted = pairs.get(model)
        if wanted is None or before.get(model) != wanted:
            literal = None if wanted is None else _literal(wanted)
            lines = _with_line(lines, BY_MODEL, _key(lines, model), literal)
    return lines


def _key(lines: Sequence[str], name: str) -> str:
    """The name as the lines write it as a key, else as this writes it: quoted."""
    quoted = _literal(name)
    for written in (quoted, name, f"'{name}'"):
        if any(re.match(rf"\s*{re.escape(written)}\s*=", line) for line in lines):
            return written
    return quoted


def _header(lines: Sequence[str], pattern: str) -> int | None:
    for at, line in enumerate(lines):
        if re.fullmatch(rf"\s*{pattern}\s*(#.*)?", line):
            return at
    return None


def _end(lines: Sequence[str], start: int) -> int:
    """Where the section that begins at `start` ends: at the next header or the end of the text."""
    for at in range(start + 1, len(lines)):
        if re.match(r"\s*\[[^\[\]]*\]\s*(#.*)?$|\s*\[\[", lines[at]):
            return at
    return len(lines)


def _length(lines: Sequence[str]) -> int:
    """How many lines the assignment takes that begins at the first: the fewest that parse."""
    for count in range(1, len(lines) + 1):
        try:
            tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        return count
    return len(lines)


def _comment(line: str) -> str:
    """The comment at the end of a one-line assignment, with the space before it; else ""."""
    for found in re.finditer(r"\s*#", line):
        try:
            tomllib.loads(line[: found.start()])
        except tomllib.TOMLDecodeError:
            continue  # this # stands inside a text
        return line[found.start() :]
    return ""


def _plain(value: Any) -> Any:
    """One value of a list as the file has it."""
    return named_text(value) if isinstance(value, NamedEngine) else value


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_literal(each) for each in value)}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, save that TOML wants the delete character escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


# --- [[nodes]] ------------------------------------------------------------------------------------


def _table(node: FixedNode) -> dict[str, Any]:
    table: dict[str, Any] = {"url": node.url}
    if node.slots:
        table["slots"] = node.slots
    if node.name:
        table["name"] = node.name
    if node.key_env:
        table["key_env"] = node.key_env
    if node.key_file:
        table["key_file"] = node.key_file
    return table


def _with_tables(lines: list[str], wanted: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines without the `[[nodes]]` blocks, then a block for each wanted table.

    A block that already says what is wanted is kept as it stands, comments included.
    """
    kept: dict[int, list[str]] = {}
    rest: list[str] = []
    at = 0
    while at < len(lines):
        if not re.fullmatch(rf"\s*\[\[\s*{NODES}\s*\]\]\s*(#.*)?", lines[at]):
            rest.append(lines[at])
            at += 1
            continue
        end = _end(lines, at)
        block = lines[at:end]
        (table,) = _parsed("\n".join(block))[NODES]
        place = next((i for i, each in enumerate(wanted) if each == table and i not in kept), None)
        if place is not None:
            kept[place] = block
        at = end
    for place, table in enumerate(wanted):
        if rest and rest[-1].strip():
            rest.append("")
        fresh = [f"[[{NODES}]]", *(f"{key} = {_literal(value)}" for key, value in table.items())]
        rest.extend(kept.get(place, fresh))
    return rest
