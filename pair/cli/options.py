"""Options that several commands share, so that they are called and told the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ProxyOption = Annotated[
    str | None,
    typer.Option(
        "--proxy",
        metavar="URL",
        help="The running proxy to ask; by default the one of this machine's settings,"
        " http://127.0.0.1:7247 unless you changed proxy.listen.",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print exact JSON to stdout instead of a table.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings file to use instead of the one in your config folder.",
        show_default=False,
    ),
]
