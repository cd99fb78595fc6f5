"""Asking a machine that runs `pair` for its report.

Not an engine, but asked in the same way: with the same session, limits and faults.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import aiohttp

from pair.core.reports import NodeReport
from pair.engines.question import NO_HEADERS, ask, latest_lines
from pair.errors import GarbledAnswer
from pair.wire.node_report import REPORT_PATH, REPORTS_PATH, decode_report, means_a_report

SILENCE_LIMIT_S = 35.0
"""Longest silence of a stream of reports (s): a living node repeats itself every 10 s
(`pair/agent/report_feed.py`), and one late line is no death."""


class NotPair(GarbledAnswer):
    """Something answers there, but not a `pair` node.

    Attributes:
        in_trouble: it answered with a status of 5xx, as a `pair` node with too much to do may.
    """

    def __init__(self, detail: str, *, in_trouble: bool = False) -> None:
        super().__init__(detail)
        self.in_trouble = in_trouble


class NoStream(GarbledAnswer):
    """This `pair` node has no stream of reports: an older one."""


async def report_of(
    session: aiohttp.ClientSession,
    url: str,
    limit_s: float | None,
    *,
    headers: Mapping[str, str] = NO_HEADERS,
) -> NodeReport:
    """The report of the `pair` node at this base URL.

    Args:
        limit_s: for the whole of it; None leaves that to the caller.
        headers: besides our own.

    Raises:
        UnreachableNode: no connection.
        SilentNode, LostUpstream: a connection, and no whole answer.
        NotPair: an answer that no `pair` node gives.
        GarbledAnswer: meant as a report, and unusable; or no HTTP.
    """
    said = await ask(session, url + REPORT_PATH, limit_s, headers=headers)
    if said.status != 200:
        raise NotPair(
            f"what answers at {url} is not a pair node (status {said.status})",
            in_trouble=said.status >= 500,
        )
    try:
        return decode_report(said.body)
    except GarbledAnswer as fault:
        if means_a_report(said.body):
            raise
        # LM Studio, for one, has an answer with status 200 at every path.
        raise NotPair(f"what answers at {url} is not a pair node: {fault}") from fault


async def reports_of(
    session: aiohttp.ClientSession, url: str, *, headers: Mapping[str, str] = NO_HEADERS
) -> AsyncGenerator[NodeReport, None]:
    """The reports of the `pair` node at this base URL, one after each change (the last of several
    that come together), until it ends the stream. To be closed.

    Raises:
        NoStream: it has none.
        UnreachableNode, SilentNode, LostUpstream: no connection, or none any more.
        GarbledAnswer: another refusal, or a line that is no report.
    """
    said = latest_lines(
        session, url + REPORTS_PATH, silence_limit_s=SILENCE_LIMIT_S, headers=headers
    )
    async with aclosing(said):
        async for line in said:
            if line.status == 404:
                raise NoStream(f"{url} has no stream of reports")
            if line.status != 200:
                raise GarbledAnswer(f"{url} gives no stream of reports (status {line.status})")
            yield decode_report(line.body)
