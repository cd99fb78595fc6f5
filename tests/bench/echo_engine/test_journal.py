from __future__ import annotations

import asyncio
import hashlib
import json

import msgspec
import pytest

from pair.bench.echo_engine.journal import Journal
from tests.bench.echo_engine.calling import LIMIT_S


def test_only_the_last_entries_are_kept() -> None:
    journal = Journal(limit=3)
    for number in range(5):
        journal.close(journal.open("/v1/x", f"id-{number}", ()), "done")
    assert [entry.number for entry in journal.entries] == [3, 4, 5]
    assert journal.counters.fates == {"done": 5}


def test_starts_are_counted_by_request_id_within_the_bound() -> None:
    journal = Journal(limit=2)
    for request_id in ("twice", "once", "twice", "new", ""):
        journal.started(journal.open("/v1/x", request_id, ()), slot=0)
    assert dict(journal.starts) == {"twice": 2, "new": 1}
    assert journal.counters.started == 5


def test_paths_beyond_the_bound_share_one_count() -> None:
    journal = Journal(limit=2)
    for path in ("/a", "/b", "/c", "/d", "/a"):
        journal.seen(path)
    assert journal.counters.requests_by_path == {"/a": 2, "/b": 1, "(others)": 2}


def test_the_digest_is_of_the_bytes_sent() -> None:
    journal = Journal(limit=2)
    entry = journal.open("/v1/x", "", ())
    entry.sent(b"one ")
    entry.sent(b"two")
    journal.close(entry, "done")
    assert entry.body_sha256 == hashlib.sha256(b"one two").hexdigest()
    assert entry.body_bytes == 7


def test_the_highest_load_is_remembered_until_a_reset() -> None:
    journal = Journal(limit=2)
    for running in (1, 3, 2):
        journal.set_load(running, waiting=5 - running)
    assert journal.counters.max_running == 3
    journal.open("/v1/x", "", ())
    journal.reset()
    assert not journal.entries
    assert (journal.counters.running, journal.counters.waiting) == (2, 3)
    assert journal.counters.max_running == 2


async def test_a_condition_is_waited_for() -> None:
    journal = Journal(limit=2)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(
            journal.until(lambda: journal.counters.running == 2, timeout_s=LIMIT_S)
        )
        await asyncio.sleep(0)
        journal.set_load(1, 0)
        await asyncio.sleep(0)
        assert not waiting.done()
        journal.set_load(2, 0)
    await journal.until(lambda: journal.counters.running == 2, timeout_s=0.0)


async def test_a_condition_that_does_not_come_ends_the_wait() -> None:
    with pytest.raises(TimeoutError):
        await Journal(limit=2).until(lambda: False, timeout_s=0.01)


def test_the_json_holds_no_headers() -> None:
    journal = Journal(limit=2)
    entry = journal.open("/v1/x", "id", ((b"Authorization", b"Bearer secret"),))
    journal.started(entry, slot=1)
    journal.close(entry, "hung_up")
    text = msgspec.json.encode(journal.as_json())
    shown = json.loads(text)["entries"][0]
    assert (shown["slot"], shown["fate"], shown["request_id"]) == (1, "hung_up", "id")
    assert shown["arrival_s"] <= shown["start_s"] <= shown["end_s"]
    assert b"secret" not in text


def test_a_witness_is_told_of_opening_start_and_end() -> None:
    told: list[tuple[str, bool]] = []
    journal = Journal(limit=2, witness=lambda each: told.append((each.fate, each.slot is not None)))
    entry = journal.open("/v1/x", "id", ())
    journal.started(entry, slot=0)
    journal.close(entry, "done")
    assert told == [("open", False), ("open", True), ("done", True)]
