"""Where the configuration and the state live, and the machine's lasting id.

The id is state and not configuration: copying `config.toml` to another machine must not make two
nodes that claim to be one.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from pair.core.names import NodeId
from pair.errors import SettingsError

CONFIG_NAME: Final = "config.toml"
ID_NAME: Final = "node-id"
ID_BYTES: Final = 16
"""128 bits: no two machines draw the same one."""


@dataclass(frozen=True, slots=True)
class Folders:
    """The two folders; neither needs to exist yet."""

    config: Path
    state: Path

    @property
    def config_file(self) -> Path:
        """The file that is read where the user names none."""
        return self.config / CONFIG_NAME


def folders(environ: Mapping[str, str]) -> Folders:
    """The platform's folders, or both at `PAIR_HOME` where that is set."""
    home = environ.get("PAIR_HOME")
    if home:
        return Folders(config=Path(home), state=Path(home))
    return Folders(
        config=platformdirs.user_config_path("pair", appauthor=False),
        state=platformdirs.user_state_path("pair", appauthor=False),
    )


def node_id(state: Path) -> NodeId:
    """The machine's id, drawn at the first call and the same ever after.

    Raises:
        SettingsError: the file cannot be read or written, or holds no id. A damaged one is never
            replaced silently, because to every proxy this machine would become another.
    """
    file = state / ID_NAME
    try:
        text = file.read_text(encoding="ascii")
    except FileNotFoundError:
        text = secrets.token_hex(ID_BYTES)
        if not write_private(file, text + "\n", replace=False):
            return node_id(state)  # another process of this machine was first
    except (OSError, UnicodeDecodeError) as fault:
        raise SettingsError(f"cannot read this machine's id: {fault}") from fault
    if re.fullmatch(rf"[0-9a-f]{{{2 * ID_BYTES}}}", text.strip()) is None:
        raise SettingsError(
            f"{file} holds no node id (32 hexadecimal digits); restore it, or delete it to have"
            " this machine join as a new node"
        )
    return NodeId(text.strip())


def write_private(file: Path, text: str, *, replace: bool) -> bool:
    """Write a file that only its owner can read, whole or not at all.

    Returns:
        False if the file existed and `replace` is off.

    Raises:
        SettingsError: the disk or the permissions do not allow it.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 0600
        written = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            if replace:
                written.replace(file)
                return True
            os.link(written, file)  # unlike a rename it fails where the file exists
            return True
        except FileExistsError:
            return False
        finally:
            written.unlink(missing_ok=True)
    except OSError as fault:
        raise SettingsError(f"cannot write {file}: {fault}") from fault
