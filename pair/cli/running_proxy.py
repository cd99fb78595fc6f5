"""Asking a proxy that runs in another process, and telling plainly when none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import msgspec

from pair.cli.addresses import within_machine
from pair.cli.exit_codes import UsageFault
from pair.engines.question import ask, question_session
from pair.errors import (
    GarbledAnswer,
    NodeFault,
    PairError,
    RequestFault,
    SettingsError,
    UnreachableNode,
)
from pair.relay.addresses import TcpAddress, is_base_url, parse_address
from pair.settings import Settings
from pair.wire.snapshot_json import VERSION
from pair.wire.strategy_choice import STRATEGY_PATH

Json = Mapping[str, Any]

CONNECT_LIMIT_S: Final = 3.0
"""A proxy is on this machine or near; what takes longer to connect is not there."""
ANSWER_LIMIT_S: Final = 10.0
"""Snapshots come from memory; only a machine that is very busy needs seconds."""
PAGE_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Largest page read. A job with its 2,000 calls has about 1 MiB; a snapshot of 1,024 nodes with
tens of models each has 30."""


def proxy_url(settings: Settings, given: str | None) -> str:
    """The base URL to ask: the given one, else where these settings let a proxy listen.

    What tools are given, which ends in /v1, is understood too.

    Raises:
        UsageFault: the given one is no URL.
        SettingsError: these settings name no address that a URL can be made of.
    """
    if given is not None:
        if not is_base_url(given, ("http", "https")):
            raise UsageFault(f"--proxy takes a URL such as http://127.0.0.1:7247, not {given!r}")
        return given.rstrip("/").removesuffix("/v1").rstrip("/")
    for text in settings.proxy.listen:
        address = parse_address(text)
        if isinstance(address, TcpAddress):
            return f"http://{within_machine(address)}"
    raise SettingsError("proxy.listen has no HOST:PORT; say where the proxy is with --proxy URL")


class RunningProxy:
    """The JSON pages of a proxy; an async context manager.

    Each question raises `UnreachableNode` if nothing answers, and `GarbledAnswer` if what answers
    is no proxy of a version that this `pair` understands.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    async def __aenter__(self) -> Self:
        self._session = question_session(ANSWER_LIMIT_S)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def snapshot(self) -> Json:
        """Nodes, models and the queue, now."""
        return await self._page("/pair/v1/snapshot")

    async def jobs(self) -> Sequence[Json]:
        """The remembered jobs without their calls, oldest first."""
        page = await self._page("/pair/v1/jobs")
        jobs: Sequence[Json] = page["jobs"]
        return jobs

    async def job(self, name: str) -> Json:
        """One job with its calls.

        Raises:
            RequestFault: the proxy remembers no such job.
        """
        missing = f"the proxy remembers no job {name!r}; `pair jobs` lists those that it does"
        path = f"/pair/v1/jobs/{quote(name, safe='')}"
        return await self._page(path, RequestFault(404, "unknown_job", missing))

    async def strategy(self) -> Json:
        """Which strategy is in use, by model, and which there are."""
        return await self._page(STRATEGY_PATH, _no_switch())

    async def switch(self, name: str, model: str | None) -> Json:
        """Another strategy, for one model or (None) for all without their own; what is then in use.

        Raises:
            RequestFault: there is none of this name; the text lists those that there are.
        """
        wish = msgspec.json.encode({"strategy": name, "model": model})
        return await self._page(STRATEGY_PATH, _no_switch(), put=wish)

    async def _page(
        self, path: str, missing: PairError | None = None, *, put: bytes | None = None
    ) -> Json:
        stranger = GarbledAnswer(f"what answers at {self.url} is not a pair proxy")
        try:
            answer = await ask(
                self._session,
                self.url + path,
                ANSWER_LIMIT_S,
                connect_limit_s=CONNECT_LIMIT_S,
                limit_bytes=PAGE_LIMIT_BYTES,
                put=put,
            )
        except GarbledAnswer as fault:
            raise stranger from fault
        except NodeFault as fault:
            raise UnreachableNode(
                f"no pair proxy answers at {self.url}; start one with `pair serve` or `pair up`,"
                " or say where it is with --proxy URL"
            ) from fault
        try:
            page = msgspec.json.decode(answer.body)
        except msgspec.DecodeError as fault:
            raise stranger from fault
        if answer.status == 404 and missing is not None:
            raise missing
        if answer.status == 400 and put is not None and (said := _complaint(page)):
            raise RequestFault(400, "refused", said)
        if answer.status != 200 or not isinstance(page, dict) or not {"v", "calls"} & page.keys():
            raise stranger  # a job alone has no version, but its calls
        if page.get("v", VERSION) != VERSION:
            raise GarbledAnswer(
                f"the proxy at {self.url} speaks version {page['v']} and this pair version"
                f" {VERSION}; install the same pair on both"
            )
        return page


def _no_switch() -> RequestFault:
    sentence = "that proxy cannot switch its strategy; install the same pair on both"
    return RequestFault(404, "no_such_path", sentence)


def _complaint(page: object) -> str:
    """The sentence of an error in OpenAI's shape, "" if it has none."""
    error = page.get("error") if isinstance(page, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else ""
