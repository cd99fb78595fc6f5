"""None of these tests may leave a warning or an error in the log; those of the races run on both
loops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop

_ON_BOTH_LOOPS = (
    "test_attempt.py",
    "test_dispatcher.py",
    "test_prober.py::test_of_a_dead_and_a_live_address",
    "test_prober.py::test_the_end",
    "test_service.py::test_a_stopping_proxy",
)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What users have on Linux and macOS is uvloop, elsewhere asyncio's own."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if any(name in item.nodeid for name in _ON_BOTH_LOOPS):
        loops["uvloop"] = uvloop.new_event_loop
    return loops


@pytest.fixture(autouse=True)
def _a_quiet_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A BookkeepingError, an exception in a callback or a lost task only shows in the log."""
    yield
    # `caplog.records` are those of the teardown here.
    told = [each for each in caplog.get_records("call") if each.levelno >= logging.WARNING]
    assert not told, [record.getMessage() for record in told]
