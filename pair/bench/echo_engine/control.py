"""/echo/...: how a test or a person outside the process reads and steers an echo engine.

GET  /echo/journal   what was done, with counters
POST /echo/reset     forget that, and what the prefix cache holds
POST /echo/faults    replace the scripted faults by the JSON list in the body
"""

from __future__ import annotations

from aiohttp import web

from pair.bench.echo_engine.dialect import encode
from pair.bench.echo_engine.faults import FaultBook, parse_faults
from pair.bench.echo_engine.generation import Workbench
from pair.errors import SettingsError

PREFIX = "/echo/"


async def answer(request: web.Request, bench: Workbench, faults: FaultBook) -> web.Response:
    """The answer to a request below /echo/."""
    match request.method, request.path.removeprefix(PREFIX):
        case "GET", "journal":
            return _json(200, bench.journal.as_json())
        case "POST", "reset":
            bench.reset()
            return _json(200, {"reset": True})
        case "POST", "faults":
            try:
                wanted = parse_faults(await request.read())
            except SettingsError as error:
                return _json(400, {"error": str(error)})
            faults.set(*wanted)
            return _json(200, {"faults": len(wanted)})
    return _json(404, {"error": "GET /echo/journal, POST /echo/reset, POST /echo/faults"})


def _json(status: int, content: object) -> web.Response:
    return web.Response(status=status, body=encode(content), content_type="application/json")
