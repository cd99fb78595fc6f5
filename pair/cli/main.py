"""`pair`: the commands and what becomes of an error.

This module knows which commands there are and how a failure is told; what a command does is in
its own module.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

import pair
from pair.cli import exit_codes
from pair.cli.bench import bench
from pair.cli.demo import demo
from pair.cli.doctor import doctor
from pair.cli.echo import echo
from pair.cli.jobs import jobs
from pair.cli.nodes import models, nodes
from pair.cli.output import log_to_stderr
from pair.cli.serve import node, serve, up
from pair.cli.settings import app as settings_app
from pair.cli.simulate import simulate
from pair.cli.strategy import strategy
from pair.cli.top import top
from pair.errors import BookkeepingError, PairError

app = typer.Typer(
    name="pair",
    help="Finds the machines in the house that hold a model and spreads calls over them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(slots=True)
class Session:
    """What holds for one run, whatever the command.

    Attributes:
        debug: show where an error came from, and log everything.
    """

    debug: bool = False


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pair {pair.__version__}")
        raise typer.Exit(exit_codes.OK)


@app.callback()
def _any_command(
    context: typer.Context,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", envvar="PAIR_DEBUG", help="Log everything; show where an error came from."
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    session = context.ensure_object(Session)
    session.debug = debug
    log_to_stderr(debug=debug)


app.command()(up)
app.command()(serve)
app.command()(node)
app.command()(nodes)
app.command()(models)
app.command()(jobs)
app.command()(strategy)
app.command()(top)
app.command()(demo)
app.command()(bench)
app.command()(simulate)
app.command()(echo)
app.command()(doctor)
app.add_typer(settings_app, name="settings")


def run() -> None:
    """The console script: runs the command in argv and ends the process with its exit code."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command; every error is one sentence on stderr, a traceback only under `--debug`.

    Returns:
        The exit code: 0 done, 1 failed, 2 usage, 128 + its number where a signal broke it off.
    """
    session = Session()
    try:
        typer.main.get_command(app).main(list(arguments), prog_name="pair", obj=session)
    except SystemExit as end:  # how typer returns, also when all went well
        return end.code if isinstance(end.code, int) else exit_codes.OK
    except Exception as fault:  # noqa: BLE001 - the end of the process: a bug, too, is told in one sentence
        if session.debug:
            traceback.print_exception(fault)
        told = _told(fault)
        typer.echo(f"pair: {_sentence(told)}", err=True)
        return exit_codes.USAGE if isinstance(told, exit_codes.UsageFault) else exit_codes.FAILED
    return exit_codes.OK


def _told(fault: BaseException) -> BaseException:
    """Of several errors from a task group, the first meant for users; else the first."""
    leaves = list(_leaves(fault))
    return next((leaf for leaf in leaves if _for_users(leaf)), leaves[0])


def _for_users(fault: BaseException) -> bool:
    return isinstance(fault, PairError) and not isinstance(fault, BookkeepingError)


def _sentence(fault: BaseException) -> str:
    if _for_users(fault):
        return str(fault)
    told = f"{type(fault).__name__}: {fault}"
    return f"this is a bug in pair, please report it ({told}); `pair --debug ...` shows where"


def _leaves(fault: BaseException) -> Iterator[BaseException]:
    if isinstance(fault, BaseExceptionGroup):
        for inner in fault.exceptions:
            yield from _leaves(inner)
    else:
        yield fault
