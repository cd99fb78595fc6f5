"""A lead agent hands the same question to three sub-agents, with the openai-agents framework.

The framework is pointed at `pair` by its base URL alone and does not stream. Install it first: pip
install openai-agents

    python examples/agent_team.py [--base-url http://127.0.0.1:7247/v1] [--model NAME]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import uuid

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

SIDES = ("cost", "risk", "speed")


async def first_model(client: AsyncOpenAI) -> str:
    """The first model that the proxy lists; ends the program if there is none."""
    listed = (await client.models.list()).data
    if not listed:
        sys.exit("no machine of the house has a model yet; `pair nodes` shows who is there")
    return listed[0].id


async def main() -> None:
    """Run the sub-agents side by side and print what each says."""
    parser = argparse.ArgumentParser(description="Three sub-agents of one team.")
    parser.add_argument("--base-url", default="http://127.0.0.1:7247/v1")
    parser.add_argument("--model", default="", help="empty: the first that the proxy lists")
    chosen = parser.parse_args()
    set_tracing_disabled(True)  # traces would go to OpenAI
    job = f"agent-team-{uuid.uuid4().hex[:8]}"  # calls of the same name are one job
    headers = {"x-pair-job": job}
    async with AsyncOpenAI(
        base_url=chosen.base_url, api_key="none", default_headers=headers
    ) as client:
        name = chosen.model or await first_model(client)
        model = OpenAIChatCompletionsModel(model=name, openai_client=client)
        team = [
            Agent(name=side, instructions=f"Look at {side} only. One sentence.", model=model)
            for side in SIDES
        ]
        question = "Should a house have one strong computer or several weak ones?"
        async with asyncio.TaskGroup() as tasks:
            runs = [tasks.create_task(Runner.run(agent, question)) for agent in team]
        for agent, run in zip(team, runs, strict=True):
            print(f"{agent.name}: {str(run.result().final_output).strip()[:70]}")
        print(f"see: pair jobs {job}")


asyncio.run(main())
