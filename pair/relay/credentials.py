"""The key that the user has named for one node or engine, by where it is kept and never by itself.

It takes the place of whatever key a client sends, since that one is meant for `pair` or for nobody;
without it the client's own passes on. A setting holds the name of a variable or a file: what is in
a configuration, a command line or a log is seen by others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pair.errors import SettingsError
from pair.relay.heads import Header, RequestHead

KEY_LIMIT_BYTES = 8 * 1024
"""Largest key file read; keys have under 200 characters, tokens that carry claims up to 4 kB."""

_AUTHORIZATION = "Authorization"
_REPLACED = frozenset((b"authorization", b"x-api-key"))
_ANTHROPIC_PATH = b"/v1/messages"
"""Its clients and engines know a key as `x-api-key`, all others as `Authorization: Bearer`."""


class Keyed(Protocol):
    """A setting that may name a key, by the variable or the file that holds it."""

    @property
    def url(self) -> str: ...
    @property
    def key_env(self) -> str: ...
    @property
    def key_file(self) -> str: ...


class Credential(Mapping[str, str]):
    """As a mapping it is the headers of a question of our own; read anew each time, since a file
    may have been written anew.

    Args:
        variable: of the environment, read now and never again.
        file: whose only line it is; a `~` is the home folder. Read again when it has changed, and
            if it cannot be read then, the last good one stays.

    Raises:
        SettingsError: there is none there, or it is none; never quotes it.
    """

    def __init__(self, *, variable: str = "", file: str = "") -> None:
        self._file = Path(file).expanduser() if file else None
        self._stamp: tuple[int, int] | None = None
        self._key = ""
        if self._file is not None:
            try:
                self._read(self._file)
            except OSError as fault:
                raise SettingsError(
                    f"cannot read the key file {file}: {fault.strerror or fault}"
                ) from fault
        else:
            value = os.environ.get(variable, "")
            if not value.strip():
                raise SettingsError(f"the variable {variable}, named as a key, is not set")
            self._key = _usable(value, f"the variable {variable}")

    def __getitem__(self, name: str) -> str:
        if name != _AUTHORIZATION:
            raise KeyError(name)
        return f"Bearer {self._now()}"

    def __iter__(self) -> Iterator[str]:
        return iter((_AUTHORIZATION,))

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "Credential(...)"

    def headers_for(self, head: RequestHead) -> tuple[frozenset[bytes], tuple[Header, ...]]:
        """Lower-case names of the client's headers that do not pass, and what takes their place."""
        key = self._now().encode()
        added: tuple[Header, ...] = ((_AUTHORIZATION.encode(), b"Bearer " + key),)
        if head.first(b"x-api-key") is not None or head.target.startswith(_ANTHROPIC_PATH):
            added = (*added, (b"x-api-key", key))
        return _REPLACED, added

    def _now(self) -> str:
        if self._file is not None:
            with suppress(OSError, SettingsError):  # half written, or gone: the last good one
                self._read(self._file)
        return self._key

    def _read(self, file: Path) -> None:
        found = file.stat()
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp == self._stamp:
            return
        with file.open("rb") as opened:
            text = opened.read(KEY_LIMIT_BYTES + 1)
        self._key = _usable(text.decode("latin-1"), f"the key file {file}")
        self._stamp = stamp


def credential_of(named: Keyed) -> Credential | None:
    """The key that the user has named there, None without one.

    Raises:
        SettingsError: it is not where the user says.
    """
    if not named.key_env and not named.key_file:
        return None
    try:
        return Credential(variable=named.key_env, file=named.key_file)
    except SettingsError as fault:
        raise SettingsError(f"{named.url}: {fault}") from fault


def brings_key(head: RequestHead) -> bool:
    """Whether the client has sent a key of its own, be it one for `pair`, for an engine or none."""
    return any(head.first(name) is not None for name in _REPLACED)


def _usable(text: str, place: str) -> str:
    """The key without the blanks around it."""
    key = text.strip()
    if not key or len(key) > KEY_LIMIT_BYTES or not key.isascii() or not key.isprintable():
        raise SettingsError(f"{place} holds no key: it must be one line of printable ASCII")
    return key
