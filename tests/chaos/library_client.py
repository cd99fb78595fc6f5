"""A client that is the `openai` library, which sees what users of it see."""

from __future__ import annotations

import time

import openai

from tests.chaos.answers import expected, words
from tests.chaos.plan import CallPlan, Manner
from tests.chaos.record import Record, Seen


class LibraryClient:
    """The library with its own retries off: what fails must be seen."""

    def __init__(self, address: tuple[str, int]) -> None:
        name, port = address
        self._openai = openai.AsyncOpenAI(
            base_url=f"http://{name}:{port}/v1", api_key="none", max_retries=0, timeout=600
        )

    async def call(self, plan: CallPlan, record: Record) -> None:
        """Make one chat call, whatever dialect the plan says; what came of it is in `record`."""
        text, begun = "", False
        record.sent = True
        try:
            answer = await self._openai.chat.completions.create(
                model="echo",
                messages=[
                    {"role": "system", "content": f"{plan.mark} " + "x" * plan.padding_chars},
                    {"role": "user", "content": words(plan)},
                ],
                max_tokens=plan.tokens,
                stream=plan.streamed,
                extra_headers={"x-request-id": plan.mark},
            )
            begun = True
            if isinstance(answer, openai.AsyncStream):
                async for event in answer:
                    record.content_s = record.content_s or time.monotonic()
                    text += event.choices[0].delta.content or "" if event.choices else ""
                    leaves = plan.manner is Manner.LEAVES_READING
                    if leaves and len(text) > plan.moment * plan.tokens * 4:
                        await answer.close()
                        record.seen = Seen.LEFT
                        return
            else:
                text = answer.choices[0].message.content or ""
            record.seen = Seen.ANSWERED
            if text != expected(plan):
                # The library takes a stream's end for its end: what tells a cut is the error event.
                record.wrong = f"the answer is {text[:80]!r}, not {expected(plan)[:80]!r}"
        except openai.APIStatusError as error:
            record.status, record.detail = error.status_code, str(error)[:400]
        except Exception as error:  # noqa: BLE001 - the library lets several libraries' errors out
            record.detail = f"{type(error).__name__}: {error}"
            # The head comes with the first bytes of the body, of which the library may show none
            # (half a line). Of an answer that is not streamed it does not tell even that.
            broken = begun or not plan.streamed
            record.seen = Seen.BROKEN if broken else Seen.ERROR

    async def close(self) -> None:
        """Close its connections."""
        await self._openai.close()
