from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

import pytest

from pair.core.names import NodeId
from pair.core.reports import NodeReport
from pair.engines.pair_node import NoStream, NotPair, report_of, reports_of
from pair.errors import GarbledAnswer, SilentNode, UnreachableNode
from pair.wire.node_report import REPORT_PATH, REPORTS_PATH, encode_report
from tests.engines.scripted_engine import ScriptedEngine, never, session

REPORT = NodeReport(NodeId("n1"), "attic")


async def test_a_nodes_report() -> None:
    async with ScriptedEngine({REPORT_PATH: encode_report(REPORT)}) as node, session() as asking:
        assert await report_of(asking, node.url, 5.0) == REPORT


@pytest.mark.parametrize("page", [(404, b"{}"), b"<html>", b'{"error": "no such path"}'])
async def test_what_is_no_node_is_told_apart(page: bytes | tuple[int, bytes]) -> None:
    async with ScriptedEngine({REPORT_PATH: page}) as other, session() as asking:
        with pytest.raises(NotPair, match=f"what answers at {other.url} is not a pair node"):
            await report_of(asking, other.url, 5.0)


async def test_a_report_that_cannot_be_used_is_a_nodes_fault() -> None:
    broken = encode_report(REPORT).replace(b'"v":1', b'"v":99')
    async with ScriptedEngine({REPORT_PATH: broken}) as node, session() as asking:
        with pytest.raises(GarbledAnswer) as raised:
            await report_of(asking, node.url, 5.0)
    assert not isinstance(raised.value, NotPair)


async def test_no_connection_and_no_answer_are_told_apart() -> None:
    async with ScriptedEngine({REPORT_PATH: never}) as node, session() as asking:
        url = node.url
        with pytest.raises(SilentNode):
            await report_of(asking, url, 0.05)
    async with session() as asking:
        with pytest.raises(UnreachableNode, match=r"no connection to .*: Connection refused"):
            await report_of(asking, url, 5.0)


async def heard(url: str) -> list[NodeReport]:
    async with session() as asking, aclosing(reports_of(asking, url)) as reports:
        return [report async for report in reports]


async def test_of_a_nodes_reports_the_latest() -> None:
    later = replace(REPORT, draining=True)
    page = encode_report(REPORT) + b"\n" + encode_report(later) + b"\n"
    async with ScriptedEngine({REPORTS_PATH: page}) as node:
        assert await heard(node.url) == [later]


async def test_a_node_without_a_stream_is_told_from_one_that_gives_none_now() -> None:
    async with ScriptedEngine({}) as older:
        with pytest.raises(NoStream):
            await heard(older.url)
    async with ScriptedEngine({REPORTS_PATH: (503, b"{}")}) as full:
        with pytest.raises(GarbledAnswer) as raised:
            await heard(full.url)
    assert not isinstance(raised.value, NoStream)


async def test_a_line_that_is_no_report_ends_it() -> None:
    async with ScriptedEngine({REPORTS_PATH: encode_report(REPORT) + b"\n{}\n"}) as node:
        with pytest.raises(GarbledAnswer):
            await heard(node.url)
