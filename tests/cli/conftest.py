"""What the command line's tests share: a home of their own, and a page-serving stand-in proxy."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pair.cli.main import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh PAIR_HOME, so that no test reads or writes the developer's own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("PAIR_HOME", str(folder))
    return folder


class Pages:
    """An HTTP address that answers with whatever the test puts under a path, and keeps what is
    PUT there.

    Stands where a proxy would, so that the commands can be shown any JSON, also what no proxy says.
    """

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.got: list[tuple[str, Any]] = []
        pages, got = self.pages, self.got

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = pages.get(self.path, (404, b'{"error": "no such page"}'))
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                got.append((self.path, json.loads(body)))
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                pass

        self._listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._listening.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._listening.server_address[1]}"

    def put(self, path: str, document: Any, status: int = 200) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.pages[path] = (status, body)

    def close(self) -> None:
        self._listening.shutdown()
        self._thread.join()
        self._listening.server_close()


@pytest.fixture
def pages() -> Iterator[Pages]:
    served = Pages()
    yield served
    served.close()


class Run:
    """One finished `pair` command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Pair:
    """Runs `pair` in this process: the same function as the console script, without its exit."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> Run:
        self._capture.readouterr()
        code = main(arguments)
        out, err = self._capture.readouterr()
        return Run(code, out, err)


@pytest.fixture
def pair(capsys: pytest.CaptureFixture[str]) -> Pair:
    return Pair(capsys)
