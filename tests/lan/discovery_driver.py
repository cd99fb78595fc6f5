"""A program with nothing but discovery in it: announces a node, or prints every sighting as a line
of JSON.

    python -m tests.lan.discovery_driver advertise ID NAME ADDRESS PORT
    python -m tests.lan.discovery_driver browse machine|network

Separate from `pair` so that a failure here is one of discovery and of nothing above it. Ends on
SIGTERM.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import signal
import sys
import time

import uvloop

from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.names import NodeId
from pair.discovery.advertiser import Advertiser
from pair.discovery.browser import Browser, Reach
from pair.discovery.source import Source
from pair.wire.advert import Advert


def _say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def _run(words: list[str]) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    started = time.monotonic()

    def tell(event: NodeSighted | NodeWithdrawn) -> None:
        after_s = round(time.monotonic() - started, 3)
        _say(
            event=type(event).__name__, after_s=after_s, at=time.time(), **dataclasses.asdict(event)
        )

    source: Source
    match words:
        case ["advertise", node, name, address, port]:
            source = Advertiser(Advert(NodeId(node), name), address, int(port))
        case ["browse", reach]:
            source = Browser(tell, Reach(reach))
        case _:
            sys.exit(__doc__)
    async with source:
        _say(event="Started", at=time.time())
        await ended.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    uvloop.run(_run(sys.argv[1:]))
