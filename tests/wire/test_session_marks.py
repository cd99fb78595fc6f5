"""Whose a request is, by headers that real agents send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.names import JobId
from pair.wire.headers import NAME_LIMIT_CHARS, Wishes
from pair.wire.session_marks import Whose, whose

ME = "192.168.1.7:50123"
NO_WISHES = Wishes()
MARKS = (
    b"x-claude-code-agent-id",
    b"x-claude-code-session-id",
    b"x-session-affinity",
    b"x-parent-session-id",
    b"thread-id",
    b"session-id",
    b"user-agent",
    b"authorization",
    b"x-api-key",
)


def of(headers: dict[bytes, bytes], wishes: Wishes = NO_WISHES, client: str = ME) -> Whose:
    return whose(headers.get, wishes, client)


@pytest.mark.parametrize(
    ("headers", "session", "job"),
    [
        (
            {b"x-claude-code-agent-id": b"a1", b"x-claude-code-session-id": b"s1"},
            "x-claude-code-agent-id: a1",
            "s1",
        ),
        ({b"x-claude-code-session-id": b"s1"}, None, "s1"),
        (
            {b"x-session-affinity": b"ses_2", b"x-parent-session-id": b"ses_1"},
            "x-session-affinity: ses_2",
            "ses_1",
        ),
        ({b"x-session-affinity": b"ses_1"}, "x-session-affinity: ses_1", None),
        ({b"thread-id": b"t", b"session-id": b"s"}, "thread-id: t", "s"),
        ({b"user-agent": b"OpenAI/Python 2"}, None, None),
    ],
)
def test_the_fine_mark_is_the_session_and_the_coarse_one_the_job(
    headers: dict[bytes, bytes], session: str | None, job: str | None
) -> None:
    found = of(headers)
    assert found.session == session
    assert found.job == job
    assert (found.flow == f"job: {job}") == (job is not None)


def test_what_the_client_says_to_pair_comes_first() -> None:
    headers = {b"thread-id": b"t", b"session-id": b"s"}
    found = of(headers, Wishes(job=JobId("team"), session="mine"))
    assert found == Whose(JobId("team"), found.session, found.flow)
    assert found.session == "x-pair-session: mine"
    assert found.flow == "job: team"


@pytest.mark.parametrize(
    "value", [b"", b"  ", b"a\tb", b"a\x00", b"x" * (NAME_LIMIT_CHARS + 1), b"a\xc2\x85b"]
)
def test_what_cannot_be_a_mark_is_none_and_the_next_one_counts(value: bytes) -> None:
    assert of({b"session-id": value, b"thread-id": value}) == of({})
    assert of({b"x-claude-code-agent-id": value, b"thread-id": b"t"}).session == "thread-id: t"


def test_clients_without_a_job_differ_by_key_program_and_machine_but_not_by_port() -> None:
    key = b"Bearer sk-very-secret"
    base = {b"authorization": key, b"user-agent": b"OpenAI/Python 2"}
    flows = {
        of(base).flow,
        of({**base, b"authorization": b"Bearer sk-other"}).flow,
        of({b"x-api-key": key, b"user-agent": b"OpenAI/Python 2"}).flow,
        of({**base, b"user-agent": b"curl/8"}).flow,
        of({b"user-agent": b"OpenAI/Python 2"}).flow,
        of(base, client="192.168.1.8:50123").flow,
        of(base, client="[fe80::1%eth0]:50123").flow,
        of(base, client="local").flow,
    }
    assert len(flows) == 8
    assert of(base).flow == of(base, client="192.168.1.7:50999").flow
    assert of(base, client="[fe80::1%eth0]:1").flow in flows
    assert "secret" not in of(base).flow


def test_a_named_job_is_no_clients_digest() -> None:
    client = of({}).flow
    assert of({}, Wishes(job=JobId(client))).flow != client


@given(st.dictionaries(st.sampled_from(MARKS), st.binary(max_size=300)), st.text(max_size=50))
def test_a_strangers_headers_are_bounded_and_printable_and_nobody_is_refused(
    headers: dict[bytes, bytes], client: str
) -> None:
    found = of(headers, client=client)
    for text in (found.job, found.session, found.flow):
        assert text is None or (text.isprintable() and 0 < len(text) < NAME_LIMIT_CHARS + 30)
    assert found == of(headers, client=client)
