"""What `pair` raises on purpose, with the blame in the type.

Kept apart from everything else because every layer raises these and the command line turns them
into one readable sentence each. A foreign exception (aiohttp's, zeroconf's, the operating system's)
is mapped to one of these at exactly one seam and never travels further.
"""

from __future__ import annotations


class PairError(Exception):
    """Base of everything that `pair` raises on purpose; its text is one sentence fit for a user."""


class BookkeepingError(PairError):
    """Our fault: the scheduler's books would no longer add up. Never caught, always a bug
    report.
    """


class SettingsError(PairError):
    """The user's setting cannot be used; the text names the setting and what would be right."""


class UnusableAddress(PairError):
    """The address to listen on or connect to is not one, or is in use, not ours or not allowed;
    the text names it.
    """


class NodeFault(PairError):
    """A node or its engine did not do what it should; another replica may still serve the
    ticket.
    """


class UnreachableNode(NodeFault):
    """No connection came about: refused, no route, unresolved name, or the connect limit passed."""


class NoConnectionYet(UnreachableNode):
    """Neither accepted nor refused within the limit: a machine that is off or cut off, or a program
    that is too busy to accept.
    """


class NoSocketsLeft(NodeFault):
    """Our own machine had no file, port or memory left for a connection: says nothing of the node,
    and passes.
    """


class LostUpstream(NodeFault):
    """A connection that stood ended (closed, reset) before the answer was whole.

    Attributes:
        reused: it had answered an earlier request, so it may have been closed for idleness.
        answered: at least one byte of the answer had come.
    """

    def __init__(self, message: str, *, reused: bool, answered: bool) -> None:
        super().__init__(message)
        self.reused = reused
        self.answered = answered


class GarbledAnswer(NodeFault):
    """What came back is not HTTP, or not of the shape that the engine's kind promises."""


class SilentNode(NodeFault):
    """Connected, asked, and no answer within the limit."""


class NoMulticast(PairError):
    """This machine's network does not carry mDNS now. Tried again until it does, so nobody fails
    of it.
    """


class RequestFault(PairError):
    """The client's request cannot be served as it is.

    Attributes:
        status: the HTTP status that says so (4xx).
        code: a short machine-readable word, the same in all dialects.
        param: the field of the request at fault, None if the request as a whole is.
    """

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
