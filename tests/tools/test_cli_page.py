"""The page of the command line names every command and option, with the words of its `--help`."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer

from tools.cli_page import cli_page


def program() -> typer.Typer:
    """A small program with a command, a hidden one, and a group."""
    app = typer.Typer(name="tool", help="Does things.")

    @app.command()
    def serve(
        where: Annotated[str, typer.Argument(help="A|B.")],
        limit_s: Annotated[float, typer.Option(envvar="TOOL_LIMIT", help="Longest wait.")] = 2.5,
        secret: Annotated[bool, typer.Option(hidden=True)] = False,
    ) -> None:
        """Serve.

        Until told otherwise.
        """

    @app.command(hidden=True)
    def internal() -> None:
        """Not for people."""

    group = typer.Typer(help="The system's service.")
    app.add_typer(group, name="service")

    @group.command("install")
    def install() -> None:
        """Put it in place."""

    return app


def test_every_visible_command_has_its_part_in_order() -> None:
    headings = [line for line in cli_page(program()).splitlines() if line.startswith("## ")]
    assert headings == [
        "## `tool`",
        "## `tool serve`",
        "## `tool service`",
        "## `tool service install`",
    ]


def test_a_part_has_usage_help_and_a_row_for_each_visible_parameter() -> None:
    part = cli_page(program()).split("## `tool serve`")[1].split("\n## ")[0]
    usage, options = part.split("| option |")
    assert "tool serve [OPTIONS]" in usage
    assert "Serve.\n\nUntil told otherwise." in usage
    assert options.count("\n| `") == 2
    assert "A\\|B." in options
    assert "--limit-s" in options
    assert "Longest wait. [env var: TOOL_LIMIT; default: 2.5]" in options


def test_the_width_of_the_terminal_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    narrow = cli_page(program())
    monkeypatch.setenv("COLUMNS", "200")
    assert cli_page(program()) == narrow
