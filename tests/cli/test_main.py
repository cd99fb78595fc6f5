from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.markup import render

import pair as package
from pair.cli.main import app
from pair.errors import BookkeepingError, SettingsError
from tests.cli.conftest import Pair


def failing_with(fault: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `pair fail` raise this."""

    def fail() -> None:
        raise fault

    commands = [*app.registered_commands, typer.models.CommandInfo(name="fail", callback=fail)]
    monkeypatch.setattr(app, "registered_commands", commands)


def test_the_version_is_told(pair: Pair) -> None:
    run = pair("--version")
    assert (run.code, run.out) == (0, f"pair {package.__version__}\n")


def test_without_a_command_the_help_is_shown(pair: Pair) -> None:
    run = pair()
    assert run.code == 2
    assert "Usage: pair" in run.out


@pytest.mark.parametrize("command", ["nodes", "models", "jobs", "top", "settings", "echo"])
def test_every_command_and_option_explains_itself(pair: Pair, command: str) -> None:
    run = pair(command, "--help")
    assert run.code == 0
    assert f"Usage: pair {command}" in run.out


def test_every_option_has_a_help_text() -> None:
    def check(command: object, name: str) -> None:
        for parameter in getattr(command, "params", []):
            if parameter.name != "help":
                assert parameter.help, f"{name} {parameter.name}"
        assert getattr(command, "help", ""), name
        for below, subcommand in getattr(command, "commands", {}).items():
            check(subcommand, f"{name} {below}")

    check(typer.main.get_command(app), "pair")


def test_no_help_text_has_brackets_that_the_help_page_takes_for_styles() -> None:
    def check(command: Any, name: str) -> None:
        for text in (command.help or "", *(each.help or "" for each in command.params)):
            assert render(text).plain == text, name
        for below, subcommand in getattr(command, "commands", {}).items():
            check(subcommand, f"{name} {below}")

    check(typer.main.get_command(app), "pair")


def test_usage_errors_are_2_and_name_the_nearest(pair: Pair) -> None:
    run = pair("noeds")
    assert (run.code, run.out) == (2, "")
    assert "Did you mean 'nodes'" in run.err
    assert pair("nodes", "--jsn").code == 2
    assert pair("top", "--interval", "often").code == 2


USER = SettingsError("port 7247 is in use")


@pytest.mark.parametrize(
    "fault", [USER, ExceptionGroup("tasks", [ValueError("x"), USER])], ids=["alone", "in a group"]
)
def test_an_error_is_one_sentence_and_1(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    failing_with(fault, monkeypatch)
    run = pair("fail")
    assert (run.code, run.out, run.err) == (1, "", "pair: port 7247 is in use\n")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (BookkeepingError("settled twice"), "BookkeepingError: settled twice"),
        (KeyError("nodes"), "KeyError: 'nodes'"),
    ],
)
def test_a_bug_is_one_sentence_too_and_says_so(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, fault: Exception, told: str
) -> None:
    failing_with(fault, monkeypatch)
    run = pair("fail")
    assert (run.code, run.out) == (1, "")
    assert run.err == (
        f"pair: this is a bug in pair, please report it ({told}); `pair --debug ...` shows where\n"
    )


def test_debug_shows_where_it_came_from(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(SettingsError("queue.limit is wrong"), monkeypatch)
    run = pair("--debug", "fail")
    assert run.code == 1
    assert "Traceback" in run.err
    assert run.err.endswith("pair: queue.limit is wrong\n")
    monkeypatch.setenv("PAIR_DEBUG", "1")
    assert "Traceback" in pair("fail").err
    monkeypatch.setenv("PAIR_DEBUG", "0")
    assert "Traceback" not in pair("fail").err


def test_ctrl_c_is_130(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(KeyboardInterrupt(), monkeypatch)
    run = pair("fail")
    assert run.code == 130
    assert "Traceback" not in run.err


def test_a_command_may_set_its_own_code(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(typer.Exit(3), monkeypatch)
    assert pair("fail").code == 3


def test_a_closed_pipe_ends_quietly(home: Path) -> None:
    program = "from pair.cli.main import run; run()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "settings"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PAIR_HOME": str(home), "PYTHONPATH": str(Path(package.__file__).parents[1])},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr as stderr:
        assert b"Traceback" not in stderr.read()
    assert process.wait() in (0, 1)


async def test_the_console_script_ends_with_the_commands_code() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from pair.cli.main import run; run()",
        "nope",
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 2
    assert b"No such command" in err
