from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator

import pytest
from rich.text import Text

from pair.cli.output import log_to_stderr, mention, say, show, show_json, warn


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Leave the test process's logging as it was."""
    root, own = logging.getLogger(), logging.getLogger("pair")
    before = (list(root.handlers), root.level, own.level)
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


def test_the_answer_goes_to_stdout_and_what_is_said_about_it_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(Text("a table"))
    say("a line")
    warn("a sentence")
    out, err = capsys.readouterr()
    assert out == "a table\na line\n"
    assert err == "pair: a sentence\n"


def test_json_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"name": "Küche", "share": 0.1 + 0.2, "none": None, "list": [1, 2]}
    show_json(document)
    out = capsys.readouterr().out
    assert json.loads(out) == document
    assert "Küche" in out


def test_a_line_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr("sys.stdout", unread)
        with pytest.raises(BrokenPipeError):
            say("an answer that is not there is a failure")
        mention("but nobody need hear this")
        mention("nor this")
    mention("the stream is closed")


def test_a_letter_that_the_stream_does_not_know_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="cp1252"))
    mention("node Küche日")
    assert written.getvalue() == "node Küche?\n".encode("cp1252")


@pytest.mark.parametrize(("debug", "level"), [(False, logging.WARNING), (True, logging.DEBUG)])
def test_only_debug_lets_the_line_of_each_ticket_through(debug: bool, level: int) -> None:
    root, own = logging.getLogger(), logging.getLogger("pair")
    root.handlers.clear()
    own.setLevel(logging.NOTSET)
    log_to_stderr(debug=debug)
    assert logging.getLogger("pair.proxy.forward").getEffectiveLevel() == level
    assert logging.getLogger("some.library").getEffectiveLevel() == logging.WARNING
