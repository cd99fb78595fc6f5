"""An echo engine in a process of its own, whose witness file survives its death.

Run: `python -m tests.chaos.engine ADDRESS:PORT PERSONA WITNESS`.
"""

from __future__ import annotations

import asyncio
import math
import signal
import sys
import time
from pathlib import Path

import msgspec

from pair.bench.echo_engine import EchoEngine, EchoModel, EchoSettings, Entry
from tests.chaos.plan import SLOTS
from tests.chaos.witness import Line

DECODE_RATE_TOKENS_PER_S = 100.0


async def serve(listen: str, persona: str, witness: Path) -> None:
    """Run until SIGTERM."""
    models = ("echo", "echo-local") if persona == "ollama" else ("echo",)
    settings = EchoSettings(
        listen=listen,
        persona=persona,  # type: ignore[arg-type]  # checked by who starts it: the plan
        models=tuple(map(EchoModel, models)),
        slots=SLOTS,
        prefill_rate_tokens_per_s=math.inf,
        decode_rate_tokens_per_s=DECODE_RATE_TOKENS_PER_S,
        context_tokens=4_000_000,
        journal_limit=256,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    # Unbuffered: what was written before a SIGKILL is there afterwards.
    with witness.open("ab", buffering=0) as file:

        def tell(entry: Entry) -> None:
            line = Line(
                mark=entry.request_id,
                at_s=time.monotonic(),
                number=entry.number,
                started=entry.slot is not None,
                fate=entry.fate,
                fault=entry.fault,
                status=entry.status,
                body_sha256=entry.body_sha256,
            )
            file.write(msgspec.json.encode(line) + b"\n")

        async with EchoEngine(settings, tell):
            await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
