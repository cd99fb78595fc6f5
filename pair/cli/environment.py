"""The one place that looks at this process's environment: settings and folders for a command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pair.cli.config import Config, Given, load
from pair.cli.folders import Folders, folders


def own_folders() -> Folders:
    """Where this user's configuration and state live."""
    return folders(os.environ)


def own_config(flags: Mapping[str, Given], file: Path | None = None) -> Config:
    """This user's settings under these flags.

    Args:
        file: the file that the user names; None for the one in the config folder, if there is one.

    Raises:
        SettingsError: with every problem found, one a line.
    """
    found = file if file is not None else own_folders().config_file
    return load(flags, environ=os.environ, file=found, must_exist=file is not None)
