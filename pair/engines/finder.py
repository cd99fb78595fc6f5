"""Which engine stands at an address, and which stand on this machine's usual ports."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

import aiohttp

from pair.engines.engine import LOOPBACK, Engine
from pair.engines.generic import Generic
from pair.engines.llamacpp import LlamaCpp
from pair.engines.lmstudio import LMStudio
from pair.engines.ollama import Ollama
from pair.engines.question import NO_HEADERS, ask
from pair.engines.sglang import SGLang
from pair.engines.vllm import VLLM
from pair.errors import GarbledAnswer, NodeFault, UnreachableNode
from pair.wire.engine_reports.recognition import (
    OPENAI_LIST_PATH,
    PAIR_NODE,
    PAIR_PROXY,
    PATHS,
    Said,
    recognised_kind,
    wants_key,
)

KINDS: MappingProxyType[str, type[Engine]] = MappingProxyType(
    {kind.kind: kind for kind in (Ollama, LMStudio, LlamaCpp, VLLM, SGLang, Generic)}
)

USUAL_PORTS: MappingProxyType[int, str] = MappingProxyType(
    {11434: "ollama", 1234: "lmstudio", 8080: "llamacpp", 8000: "vllm", 30000: "sglang"}
)
"""By port, the kind that listens there unless told otherwise; any kind is recognised on each."""

_CLOSED_TO_ALL = frozenset({"lmstudio", "sglang"})
"""Kinds that show nothing without a key. The others keep a path open that gives them away, and
their ports are popular: what answers 401 to everything there is more likely no engine at all."""

QUESTION_LIMIT_S = 1.0
"""Longest wait for each answer."""

HEAD_START_S = 0.1
"""The first question is alone for so long: where nobody listens, the other ten are spared."""

STRANGER_PAUSE_S = 60.0
"""So long a port is left alone where something answers that is no engine: each look is ten lines in
the log of somebody's web application."""


class PairItself(GarbledAnswer):
    """A `pair` listens there. Taken for an engine it would list its own models as that engine's,
    and requests would go in circles.
    """


async def recognise(
    session: aiohttp.ClientSession,
    url: str,
    *,
    slots: int = 0,
    if_closed: str = "generic",
    headers: Mapping[str, str] = NO_HEADERS,
    limit_s: float = QUESTION_LIMIT_S,
) -> Engine:
    """The engine at this address.

    Args:
        url: `http://ADDRESS:PORT`; a `/v1` at its end, as clients have it, is dropped.
        slots: the user's word on them, 0 for the engine's own.
        if_closed: the kind to take it for if it tells nothing without a key.
        headers: what each question carries, now and later, such as a key.
        limit_s: for each answer; all are asked together.

    Raises:
        UnreachableNode: no connection.
        SilentNode, LostUpstream: a connection, and no answer to any question.
        PairItself: it is a `pair`.
        GarbledAnswer: no kind of engine answers so.
    """
    base = url.rstrip("/").removesuffix("/v1")
    answers: dict[str, Said] = {}
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(_put(session, base, OPENAI_LIST_PATH, answers, headers, limit_s))
        await asyncio.wait([first], timeout=HEAD_START_S)
        if not (first.done() and isinstance(first.result(), UnreachableNode)):
            for path in PATHS:
                if path != OPENAI_LIST_PATH:
                    tasks.create_task(_put(session, base, path, answers, headers, limit_s))
    unanswered = first.result()
    if not answers and unanswered is not None:
        raise unanswered
    kind = recognised_kind(answers) or (if_closed if wants_key(answers) else "")
    if kind in (PAIR_NODE, PAIR_PROXY):
        raise PairItself(f"{base} is a {kind}, not an engine; name the engine behind it")
    if not kind:
        raise GarbledAnswer(f"{base} answers, but not as any inference engine that pair knows")
    engine = KINDS[kind](base, slots, headers)
    engine.sure = len(answers) == len(PATHS)
    return engine


async def _put(
    session: aiohttp.ClientSession,
    base: str,
    path: str,
    answers: dict[str, Said],
    headers: Mapping[str, str],
    limit_s: float,
) -> NodeFault | None:
    """Add the answer at this path to the others, or return why there is none."""
    try:
        answers[path] = await ask(session, base + path, limit_s, headers=headers)
    except NodeFault as fault:
        return fault
    return None


class EngineFinder:
    """Looks for engines on this machine's ports and remembers where something else listens.

    Args:
        slots: the user's word on the slots of every engine, 0 for their own.
    """

    def __init__(self, ports: Iterable[int] = tuple(USUAL_PORTS), slots: int = 0) -> None:
        self._ports = tuple(ports)
        self._slots = slots
        self._left_alone_until: dict[int, float] = {}

    async def look(
        self, session: aiohttp.ClientSession, known: Collection[str] = ()
    ) -> tuple[Engine, ...]:
        """The engines that answer now, in the order of the ports.

        Args:
            known: URLs of engines that need no recognising again; they are not asked and not
                returned.
        """
        now = asyncio.get_running_loop().time()
        taken = {parts.port for url in known if (parts := urlsplit(url)).hostname in LOOPBACK}
        async with asyncio.TaskGroup() as tasks:
            looks = [
                tasks.create_task(self._look_at(session, port))
                for port in self._ports
                if port not in taken and self._left_alone_until.get(port, now) <= now
            ]
        return tuple(engine for look in looks if (engine := look.result()) is not None)

    async def _look_at(self, session: aiohttp.ClientSession, port: int) -> Engine | None:
        usual = USUAL_PORTS.get(port, "")
        try:
            return await recognise(
                session,
                f"http://127.0.0.1:{port}",
                slots=self._slots,
                if_closed=usual if usual in _CLOSED_TO_ALL else "",
            )
        except GarbledAnswer:
            loop = asyncio.get_running_loop()
            self._left_alone_until[port] = loop.time() + STRANGER_PAUSE_S
        except NodeFault:
            pass
        return None
