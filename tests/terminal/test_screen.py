from __future__ import annotations

import io
import os
import pty

from pair.terminal.screen import console_on


def test_a_pipe_gets_no_escape_codes_and_a_fixed_width() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    console = console_on(stream)
    console.print("[bold]x[/bold] :smile: 12", style="red")
    stream.seek(0)
    assert stream.read() == "[bold]x[/bold] :smile: 12\n"
    assert not console.is_terminal
    assert console.width == 160


def test_a_letter_that_the_stream_cannot_hold_is_replaced() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console_on(stream).print("a · b")
    stream.seek(0)
    assert stream.read() == "a ? b\n"


def test_a_terminal_is_known_as_one() -> None:
    parent, child = pty.openpty()
    try:
        with os.fdopen(child, "w", encoding="utf-8") as stream:
            assert console_on(stream).is_terminal
    finally:
        os.close(parent)
