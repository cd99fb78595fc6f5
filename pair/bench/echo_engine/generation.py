"""One call on one slot: prefill, then a token at a time, each when it is due.

Apart from how it is asked for and sent (the dialects and `reply`), so that the promise "equal calls
take equal time: uncached tokens / prefill rate + answer tokens / decode rate" stands in one place.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from pair.bench.echo_engine import tokenizer
from pair.bench.echo_engine.faults import AnyFault, KeepComputing, Stall
from pair.bench.echo_engine.journal import Entry, Journal
from pair.bench.echo_engine.pace import Pace
from pair.bench.echo_engine.prefix_cache import PrefixCache, Slot
from pair.bench.echo_engine.settings import EchoSettings
from pair.bench.echo_engine.slots import QueueFull, Slots
from pair.errors import PairError

# An unfinished token of a float sum still counts as due; see Pace.
_ROUNDING_TOKENS = 1e-6


class Refusal(PairError):
    """The engine says no; the dialect of the path puts it into words."""

    def __init__(
        self, status: int, kind: str, message: str, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Call:
    """What a client asks for, whatever its dialect.

    Attributes:
        prompt: rendered, see `tokenizer`.
        words: what the answer echoes.
        answer_tokens: None takes the engine's default length; 0 for embeddings.
        usage_asked: the stream shall end with the token counts.
        tool: name of the tool to call instead of answering in words.
        parts: what embeddings are asked for; `packed`: as base64.
    """

    model: str
    prompt: str
    words: str = ""
    answer_tokens: int | None = None
    stream: bool = False
    usage_asked: bool = False
    tool: str | None = None
    parts: tuple[str, ...] = ()
    packed: bool = False


@dataclass(slots=True)
class Outcome:
    """What came of a call so far; times in s.

    Attributes:
        created_s: seconds since 1970.
        queue_s, load_s: waited for a slot, for the model.
        prefill_s, decode_s: time on the slot, split as the work was.
    """

    number: int
    created_s: float
    prompt_tokens: int
    cached_tokens: int
    text: str
    finish: Literal["stop", "length", "tool"]
    output_tokens: int = 0
    load_s: float = 0.0
    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0


class Generation:
    """A call that holds a slot; ask for `next_tokens` until there are none."""

    def __init__(self, bench: Workbench, call: Call, entry: Entry, slot: Slot) -> None:
        self._bench, self._call, self._entry, self._slot = bench, call, entry, slot
        self._stall_after, self._stall_s = 0, 0.0
        self._holds_slot = True
        settings = bench.settings
        cached = bench.slots.cache.load(slot, call.model, call.prompt)
        prompt_tokens = tokenizer.count(call.prompt)
        self._started_s = time.monotonic()
        self._start_work_s = bench.pace.work_s()
        self._prefill_work_s = (prompt_tokens - cached) / settings.prefill_rate_tokens_per_s
        self._rate = settings.decode_rate_tokens_per_s
        text, finish = _answer(call, prompt_tokens, settings)
        self._total = tokenizer.count(text)
        self.outcome = Outcome(
            entry.number, time.time(), prompt_tokens, cached, text, finish, load_s=entry.load_s
        )
        self.outcome.queue_s = bench.journal.now_s() - entry.arrival_s - entry.load_s
        entry.prompt_tokens, entry.cached_tokens = prompt_tokens, cached
        bench.journal.started(entry, slot.number)

    def stall(self, after_tokens: int, for_s: float) -> None:
        """Put a pause of `for_s` of work before the token that follows the first `after_tokens`."""
        self._stall_after, self._stall_s = after_tokens, for_s

    async def next_tokens(self) -> list[str]:
        """Wait until the next token is due; it, and whatever else is due by then. Empty at the end.

        With the last token the slot is free, as in a real engine, before that token is sent.
        """
        done = self.outcome.output_tokens
        if not self._holds_slot:
            return []
        await self._bench.pace.until(self._due_s(done + 1))
        upto = max(done + 1, self._count_due())
        self.outcome.output_tokens = self._entry.output_tokens = upto
        if upto == self._total:
            self.release()
        return tokenizer.pieces(self.outcome.text, done, upto)

    async def first_token(self) -> None:
        """Wait until the first token is due, or the end of the prefill where none follows."""
        await self._bench.pace.until(self._due_s(min(1, self._total)))

    async def last_token(self) -> None:
        """Wait until the last token is due, without waking for each; then the slot is free."""
        await self._bench.pace.until(self._due_s(self._total))
        self._finish()

    def release(self) -> None:
        """Free the slot, if it is still held; it remembers what it has worked on so far."""
        if not self._holds_slot:
            return
        self._holds_slot = False
        written = max(self.outcome.output_tokens, self._count_due())
        self.outcome.output_tokens = self._entry.output_tokens = written
        self._settle_times()
        outcome, slot = self.outcome, self._slot
        slot.model = self._call.model
        prompt = self._prompt_in_slot()
        slot.held = prompt + tokenizer.beginning(outcome.text, outcome.output_tokens)
        self._bench.count(outcome, tokenizer.count(prompt))
        self._bench.slots.free(slot)

    def release_when_computed(self) -> None:
        """Free the slot only when the whole answer is computed, with nobody listening."""
        if self._holds_slot:
            self._bench.pace.when(self._due_s(self._total), self._finish)

    def _finish(self) -> None:
        self.outcome.output_tokens = self._entry.output_tokens = self._total
        self.release()

    def _due_s(self, token: int) -> float:
        """When token number `token` (from 1) is due on the scale of work; 0: the prefill's end."""
        pause_s = self._stall_s if token > self._stall_after else 0.0
        return self._start_work_s + self._prefill_work_s + pause_s + token / self._rate

    def _count_due(self) -> int:
        """How many tokens are due by now."""
        spent_s = self._bench.pace.work_s() - self._start_work_s - self._prefill_work_s
        count = self._written_in(spent_s)
        if count > self._stall_after:
            count = max(self._stall_after, self._written_in(spent_s - self._stall_s))
        return count

    def _written_in(self, spent_s: float) -> int:
        """Tokens that take `spent_s` without a pause; none during the prefill."""
        if spent_s < 0:
            return 0
        if math.isinf(self._rate):
            return self._total
        return min(self._total, math.floor(spent_s * self._rate + _ROUNDING_TOKENS))

    def _settle_times(self) -> None:
        """Split the wall time on the slot as the work was; exact while the load is constant."""
        spent_s = time.monotonic() - self._started_s
        work_s = self._bench.pace.work_s() - self._start_work_s
        share = min(1.0, self._prefill_work_s / work_s) if work_s > 0 else 0.0
        self.outcome.prefill_s = spent_s * share
        self.outcome.decode_s = spent_s - self.outcome.prefill_s

    def _prompt_in_slot(self) -> str:
        """The prompt as far as it has been read: all of it, unless released during the prefill."""
        spent_s = self._bench.pace.work_s() - self._start_work_s
        if spent_s >= self._prefill_work_s:
            return self._call.prompt
        read = spent_s * self._bench.settings.prefill_rate_tokens_per_s
        return tokenizer.beginning(self._call.prompt, self.outcome.cached_tokens + int(read))


class Workbench:
    """Everything that generations of one engine share."""

    def __init__(self, settings: EchoSettings, journal: Journal) -> None:
        self.settings = settings
        self.journal = journal
        self.pace = Pace(settings.slowdown_per_busy_slot)
        cache = PrefixCache(settings.similarity, settings.cache_ram_tokens)
        self.slots = Slots(settings.slots, settings.queue_limit, cache, self._load_changed)
        self._started_s = time.monotonic()

    @property
    def loading_s(self) -> float:
        """How long the model still loads, 0 once it is there."""
        return max(0.0, self._started_s + self.settings.load_time_s - time.monotonic())

    @asynccontextmanager
    async def generate(
        self, call: Call, entry: Entry, fault: AnyFault | None
    ) -> AsyncIterator[Generation]:
        """Wait for a slot and begin; raises Refusal if the prompt is too long or the queue full."""
        _check_context(call, self.settings.context_tokens)
        try:
            slot = await self.slots.take(call.model, call.prompt)
        except QueueFull:
            raise Refusal(503, "busy", "All slots are busy and the queue is full.") from None
        generation = Generation(self, call, entry, slot)
        if isinstance(fault, Stall):
            generation.stall(fault.after_events, math.inf if fault.for_s is None else fault.for_s)
        try:
            yield generation
        finally:
            if isinstance(fault, KeepComputing):
                generation.release_when_computed()
            else:
                generation.release()

    def reset(self) -> None:
        """As if freshly started, save for what is running now."""
        self.journal.reset()
        self.slots.cache.clear(self.slots.all)

    def count(self, outcome: Outcome, prompt_tokens: int) -> None:
        """Add a finished or broken-off generation to the sums."""
        counters = self.journal.counters
        counters.prompt_tokens += max(0, prompt_tokens - outcome.cached_tokens)
        counters.cached_tokens += outcome.cached_tokens
        counters.output_tokens += outcome.output_tokens
        counters.prefill_s += outcome.prefill_s
        counters.decode_s += outcome.decode_s

    def _load_changed(self, busy: int, waiting: int) -> None:
        self.pace.set_busy(busy)
        self.journal.set_load(busy, waiting)


def _check_context(call: Call, context_tokens: int) -> None:
    prompt_tokens = tokenizer.count(call.prompt)
    if prompt_tokens >= context_tokens:
        raise Refusal(
            400,
            "context_exceeded",
            f"The prompt has {prompt_tokens} tokens, the context has room for {context_tokens}.",
        )


def _answer(
    call: Call, prompt_tokens: int, settings: EchoSettings
) -> tuple[str, Literal["stop", "length", "tool"]]:
    """The text of the answer and why it ends."""
    if call.tool is not None:
        return tokenizer.tool_arguments(call.words), "tool"
    room = settings.context_tokens - prompt_tokens
    wanted = settings.answer_tokens if call.answer_tokens is None else call.answer_tokens
    finish: Literal["stop", "length"] = "stop"
    if call.answer_tokens is not None or wanted > room:
        finish = "length"
    return tokenizer.echoed(call.words, min(wanted, room)), finish
