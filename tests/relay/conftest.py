"""Every async test here runs on both loops, and none may leave an error in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What users have on Linux and macOS, and what they have elsewhere."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _a_quiet_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An exception in a callback or a lost task only shows there; expected ones are cleared."""
    yield
    # `caplog.records` are those of the teardown here.
    told = [each for each in caplog.get_records("call") if each.levelno >= logging.WARNING]
    assert not told, [record.getMessage() for record in told]
