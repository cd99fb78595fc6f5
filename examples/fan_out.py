"""Five sub-agents at once through `pair`, with the plain `openai` client.

Nothing here knows of `pair` but the base URL; the job header is only there so that `pair jobs` can
show the run. Each run has a name of its own: calls of the same name are one job.

    python examples/fan_out.py [--base-url http://127.0.0.1:7247/v1] [--model NAME]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import uuid

from openai import AsyncOpenAI

SYSTEM = "You are one of five agents. Answer in one short sentence, from your own side only."
SIDES = ("cost", "risk", "speed", "care", "power")


async def ask(client: AsyncOpenAI, model: str, side: str) -> str:
    """One sub-agent's whole call."""
    answer = await client.chat.completions.with_raw_response.create(
        model=model,
        messages=[
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"Your side is {side}. One strong computer or several?"},
        ],
        max_tokens=48,
    )
    said = answer.parse().choices[0].message.content or ""
    return f"{side:6} on {answer.headers.get('x-pair-node', '?'):12} {said.strip()[:60]}"


async def first_model(client: AsyncOpenAI) -> str:
    """The first model that the proxy lists; ends the program if there is none."""
    listed = (await client.models.list()).data
    if not listed:
        sys.exit("no machine of the house has a model yet; `pair nodes` shows who is there")
    return listed[0].id


async def main() -> None:
    """Ask all five at once and say how long that took."""
    parser = argparse.ArgumentParser(description="Five sub-agents at once.")
    parser.add_argument("--base-url", default="http://127.0.0.1:7247/v1")
    parser.add_argument("--model", default="", help="empty: the first that the proxy lists")
    chosen = parser.parse_args()
    job = f"fan-out-{uuid.uuid4().hex[:8]}"
    headers = {"x-pair-job": job}
    async with AsyncOpenAI(
        base_url=chosen.base_url, api_key="none", default_headers=headers
    ) as client:
        model = chosen.model or await first_model(client)
        start = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(ask(client, model, side)) for side in SIDES]
        for each in asked:
            print(each.result())
        print(f"{len(SIDES)} calls in {time.perf_counter() - start:.2f} s; see: pair jobs {job}")


asyncio.run(main())
