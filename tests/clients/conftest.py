"""The libraries keep their traces to themselves: some would send them to their makers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agents import set_tracing_disabled


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)
