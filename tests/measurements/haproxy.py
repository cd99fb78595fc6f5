"""HAProxy as the honest baseline for a central queue: `leastconn`, one call at a time to each node,
everybody else waits in its one queue.

Debian's package is taken from the PATH. Its configuration lies in a temporary folder, it listens on
loopback only, and it ends with the block that started it.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.measurements.overhead import free_port

CONFIGURATION = """
global
    maxconn 4096
defaults
    mode http
    option abortonclose
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    timeout queue 600s
frontend agents
    bind 127.0.0.1:{port}
    default_backend nodes
backend nodes
    balance leastconn
"""
NODE = "    server node-{number} {address} maxconn {slots}\n"

START_LIMIT_S = 10.0
STOP_LIMIT_S = 5.0


def haproxy_version() -> str | None:
    """What it calls itself, None where it is not installed."""
    if shutil.which("haproxy") is None:
        return None
    said = subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=True, timeout=10)
    return " ".join(said.stdout.split()[:3])


@asynccontextmanager
async def haproxy(urls: Sequence[str], slots: int = 1) -> AsyncIterator[str]:
    """Run it before these nodes; its base URL, once it accepts connections."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "haproxy.cfg"
        nodes = [
            NODE.format(number=number, address=urlsplit(url).netloc, slots=slots)
            for number, url in enumerate(urls)
        ]
        path.write_text(CONFIGURATION.format(port=port) + "".join(nodes))
        process = await asyncio.create_subprocess_exec(
            "haproxy", "-db", "-f", str(path), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
        try:
            await _accepting(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            await _ended(process)


async def _accepting(process: Process, port: int) -> None:
    async with asyncio.timeout(START_LIMIT_S):
        while process.returncode is None:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)
    said = b"" if process.stderr is None else await process.stderr.read()
    raise SystemExit(f"haproxy does not start: {said.decode(errors='replace')}")


async def _ended(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(STOP_LIMIT_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
