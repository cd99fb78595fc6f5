"""What a user of each library sees when something goes wrong: its own exception, with our words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pair.core.names import Outcome
from pair.settings import QueueSettings, Settings
from tests.clients.both_ways import both, complaint, pieces_until
from tests.clients.libraries import LIBRARIES, Ask
from tests.support.house import FAST, House, chat, house

# Of a kind that speaks all dialects, and says 404 to an unknown model.
ENGINE = replace(FAST, persona="ollama", answer_tokens=16)
RETRY_AFTER_S = 1.0
"""What a full house of this fast engine says; left to themselves the libraries come back after half
of it."""

AT_ONCE = Settings(queue=QueueSettings(start_grace_s=0.0))
"""What is unknown is refused at once, also by a proxy that has only just started."""

FEW = 5
"""Tokens: too few for the prompt by the engine's count, but not beyond all doubt by the proxy's."""

every_library = pytest.mark.parametrize("name", LIBRARIES)


@asynccontextmanager
async def full_house(slots: int) -> AsyncIterator[tuple[House, Callable[[], None]]]:
    """A house whose slots are all taken and whose queue holds nobody; and how to free them all."""
    nobody = Settings(queue=QueueSettings(limit=0))
    async with house(replace(ENGINE, slots=slots), settings=nobody, slots=[slots]) as built:
        holders = [await built.raw() for _ in range(slots)]
        for holder in holders:
            holder.post(chat(stream=True), x_echo_fault="stall,after_events=1")
            await holder.until(b"data: ")

        def free() -> None:
            for holder in holders:
                holder.hang_up()

        yield built, free


@every_library
async def test_an_unknown_model_is_not_found_and_the_existing_ones_are_named(name: str) -> None:
    library = LIBRARIES[name]
    async with house(ENGINE, settings=AT_ONCE) as built:
        for url, words in ((built.engines[0].url, "not found"), (built.base_url, "are: echo.")):
            ask = Ask(url, model="gone")
            whole = await complaint(library.unknown_model, library.whole(ask))
            assert whole["status"] == 404
            assert words in whole["words"]
            _, said = await pieces_until(library.unknown_model, library.streamed(ask))
            assert words in said


@every_library
async def test_an_engines_own_refusal_comes_as_it_is(name: str) -> None:
    library = LIBRARIES[name]

    async def call(url: str) -> object:
        return await complaint(Exception, library.whole(Ask(url)))

    async with house(replace(ENGINE, context_tokens=FEW)) as built:
        refused = await both(built, call)
    assert refused["status"] == 400
    assert f"the context has room for {FEW}" in refused["words"]


@every_library
async def test_a_node_that_dies_before_the_first_byte_is_not_noticed(name: str) -> None:
    library = LIBRARIES[name]
    async with house(ENGINE, ENGINE) as built:
        built.engines[0].faults.set("reset")
        assert (await library.whole(Ask(built.base_url))).startswith("Grüezi")
        assert built.engines[0].journal.counters.fates["faulted"] == 1
        pieces = [piece async for piece in library.streamed(Ask(built.base_url))]
        assert "".join(pieces).startswith("Grüezi")


@every_library
async def test_an_engine_that_dies_in_mid_stream_is_an_error_after_the_text_so_far(
    name: str,
) -> None:
    library = LIBRARIES[name]
    async with house(replace(ENGINE, decode_rate_tokens_per_s=200.0)) as built:
        built.engines[0].faults.set("cut,after_events=2")
        text, words = await pieces_until(
            library.broken_stream, library.streamed(Ask(built.base_url))
        )
        assert text == "Grüezi, "
        assert "The answer broke off" in words
        await built.quiet()
        assert built.snapshot().closed[Outcome.FAILED] == 1
        built.assert_books_are_clean()


@every_library
async def test_an_engine_that_dies_in_mid_answer_looks_as_it_does_directly(name: str) -> None:
    """Half an answer that is not streamed must not be taken for a whole one."""
    library = LIBRARIES[name]

    async def kind_of_error(url: str) -> type[Exception]:
        with pytest.raises(Exception, match="onnection") as caught:
            await library.whole(Ask(url))
        return type(caught.value)

    async with house(ENGINE) as built:
        built.engines[0].faults.set("cut")
        direct = await kind_of_error(built.engines[0].url)
        assert await kind_of_error(built.base_url) is direct
        await built.quiet()
        assert built.snapshot().closed[Outcome.FAILED] == 1
        built.assert_books_are_clean()


@every_library
async def test_a_full_queue_says_so(name: str) -> None:
    library = LIBRARIES[name]
    async with full_house(slots=1) as (built, _):
        whole = await complaint(library.too_many, library.whole(Ask(built.base_url)))
        assert whole["status"] == 429
        assert "queue.limit" in whole["words"]
        _, said = await pieces_until(library.too_many, library.streamed(Ask(built.base_url)))
        assert "queue.limit" in said


async def test_the_libraries_come_back_when_a_full_queue_told_them_to() -> None:
    """All but Ollama's, which never sends anything twice."""
    patient = [library for name, library in LIBRARIES.items() if name != "ollama"]
    loop = asyncio.get_running_loop()
    async with full_house(slots=len(patient)) as (built, free):
        start = loop.time()
        async with asyncio.TaskGroup() as tasks:
            ask = Ask(built.base_url, retries=1)
            calls = [tasks.create_task(library.whole(ask)) for library in patient]
            await built.until(lambda: built.snapshot().closed[Outcome.REFUSED] == len(patient))
            free()
        assert loop.time() - start >= RETRY_AFTER_S
        assert all(call.result().startswith("Grüezi") for call in calls)
        assert built.snapshot().closed[Outcome.REFUSED] == len(patient)
        await built.quiet()
        built.assert_books_are_clean()
