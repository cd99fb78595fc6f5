"""What is done about silence: towards a client whose call waits, and of an engine in the middle of
its answer.

One coarse sweep looks at all open tickets, because a timer a request, let alone one an event, would
cost more than the limits, which are seconds and more, are worth.
"""

from __future__ import annotations

from collections.abc import Callable

from pair.relay.exchange import Exchange
from pair.relay.heads import AnswerHead, Header
from pair.relay.sweep import INTERVAL_S, Sweep
from pair.settings import StreamSettings
from pair.wire.open_streams import OpenStream

UNBUFFERED: tuple[Header, ...] = (
    (b"Cache-Control", b"no-cache, no-transform"),
    (b"X-Accel-Buffering", b"no"),
)
"""Said with event streams, so that whatever stands between us and the client passes each event on
as it comes."""


class Silence:
    """Of one ticket. Made by `Silences.watch`.

    Attributes:
        heard: something of the answer passed since the last look; whoever relays sets it.
        on_stall: called with the time (s) for which nothing has come; None while nobody could do
            anything about it.
    """

    __slots__ = (
        "_exchange",
        "_form",
        "_headers",
        "_limits",
        "_pulse_at",
        "_silent_since",
        "_taken",
        "heard",
        "on_stall",
    )

    def __init__(
        self,
        limits: StreamSettings,
        exchange: Exchange,
        form: OpenStream | None,
        headers: tuple[Header, ...],
        now: float,
    ) -> None:
        self.heard = False
        self.on_stall: Callable[[float], None] | None = None
        self._limits = limits
        self._exchange = exchange
        # Without chunks there is no end to a stream but the connection's; a 101 cannot follow one.
        chunks = exchange.head.minor_version == 1 and not exchange.head.protocol
        self._form = form if limits.keep_alive_after_s > 0 and chunks else None
        self._headers = headers
        self._pulse_at = now + limits.keep_alive_after_s
        self._silent_since = now
        self._taken = False

    def begin_attempt(self) -> None:
        """Nothing is known of the answer (any more): the stream may be opened."""
        self._taken = False

    def joins(self, answer: AnswerHead) -> bool:
        """Whether this answer can go to the client as it is: its own head is still possible, or its
        body can follow ours. One that could not follow gets no head ahead of it from now on.
        """
        form = self._form
        follows = form is not None and (
            answer.status == 200
            and not answer.packed
            and (answer.first(b"content-type") or b"").lower().startswith(form.follows)
        )
        self._taken = not follows
        return follows or not self._exchange.ahead

    def sweep(self, now: float) -> None:
        """Give a sign of life, or find a stall."""
        exchange = self._exchange
        if exchange.over:
            return
        if exchange.begun:
            self._look_for_stall(now)
        else:
            self._silent_since = now
            if not self._taken and now >= self._pulse_at:
                self._pulse(now)

    def _pulse(self, now: float) -> None:
        exchange, form = self._exchange, self._form
        if form is None or exchange.throttled:
            return
        self._pulse_at = now + self._limits.keep_alive_every_s
        if exchange.ahead:
            exchange.send(form.pulse)
        else:
            kind = (b"Content-Type", form.content_type)
            exchange.go_ahead((kind, *UNBUFFERED, *self._headers), form.pulse)

    def _look_for_stall(self, now: float) -> None:
        # A client that does not read has the engine paused: that is not the engine's silence.
        if self.heard or self._exchange.throttled:
            self.heard = False
            self._silent_since = now
            return
        silent_s = now - self._silent_since
        if self.on_stall is not None and 0 < self._limits.stall_limit_s < silent_s:
            self.on_stall(silent_s)


class Silences:
    """Of all open tickets of one proxy."""

    def __init__(self, limits: StreamSettings) -> None:
        self._limits = limits
        wanted = (limits.keep_alive_after_s, limits.keep_alive_every_s, limits.stall_limit_s)
        # As exact as the shortest limit asks for, and no more.
        self._sweep = Sweep(min([INTERVAL_S, *(each / 4 for each in wanted if each > 0)]))

    def watch(
        self,
        exchange: Exchange,
        form: OpenStream | None,
        headers: tuple[Header, ...],
        now: float,
    ) -> Silence:
        """Look at this ticket from now on.

        Args:
            form: of the stream that may be opened while it waits; None for a call that is not
                streamed, to whose answer nothing may be added.
            headers: of ours for that stream's head.
        """
        silence = Silence(self._limits, exchange, form, headers, now)
        self._sweep.add(silence)
        return silence

    def forget(self, silence: Silence) -> None:
        """The ticket is closed."""
        self._sweep.discard(silence)
