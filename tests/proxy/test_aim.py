"""Whom a request means."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pair.core.decisions import RefusalKind, Refuse
from pair.core.names import NodeId, TicketId
from pair.core.reports import ReplicaReport
from pair.core.scheduler import Scheduler
from pair.errors import RequestFault
from pair.proxy.aim import Aim, aim
from pair.proxy.stickiness import Stickiness
from pair.wire.request_peek import peek
from tests.core.house import replica
from tests.proxy.test_catalogue import scheduler


def ollama(model: str) -> ReplicaReport:
    return replace(replica(model, engine="ollama:1"), engine_kind="ollama")


def aimed(
    built: Scheduler,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    method: bytes = b"POST",
    node: str | None = None,
    memory: Stickiness | None = None,
) -> Aim:
    pieces = [] if body is None else [json.dumps(body).encode()]
    seen = peek(method, path.encode(), pieces, content_type=None, content_encoding=None)
    return aim(built, memory or Stickiness(9), seen, method, node)


def test_a_generation_means_nobody_in_particular() -> None:
    meant = aimed(scheduler(a=(ollama("m"),)), "/v1/chat/completions", {"model": "m"})
    assert (meant.pin, meant.walks, meant.makes) == (None, False, False)
    assert meant.learner(Stickiness(1), NodeId("a")) is None


def test_a_pull_means_the_only_ollama_and_none_of_several() -> None:
    meant = aimed(scheduler(a=(ollama("m"),), b=(replica("m"),)), "/api/pull", {"model": "new"})
    assert (meant.pin, meant.peek.model) == ("a", None)
    several = scheduler(a=(ollama("m"),), b=(ollama("n"),))
    with pytest.raises(RequestFault, match="x-pair-node: a, b"):
        aimed(several, "/api/pull", {"model": "new"})
    assert aimed(several, "/api/pull", {"model": "new"}, node="b").pin == "b"


def test_a_deletion_means_who_holds_it() -> None:
    built = scheduler(a=(ollama("m"),), b=(ollama("n"),))
    meant = aimed(built, "/api/delete", {"name": "n"}, method=b"DELETE")
    assert (meant.pin, meant.peek.model) == ("b", "n")
    with pytest.raises(RequestFault):
        aimed(built, "/api/delete", {"name": "x"}, method=b"DELETE")


def test_what_is_read_without_a_model_is_asked_on() -> None:
    meant = aimed(scheduler(), "/v1/files/f", method=b"GET")
    assert [meant.asks_on(status) for status in (200, 400, 404, 405, 501)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert not aimed(scheduler(), "/v1/files/f", method=b"GET", node="a").asks_on(404)


def test_a_known_id_means_its_node_unless_the_client_says_another() -> None:
    memory = Stickiness(9)
    memory.learn("f", NodeId("a"))
    meant = aimed(scheduler(), "/v1/files/f", method=b"GET", memory=memory)
    assert (meant.pin, meant.kept, meant.walks) == ("a", "f", False)
    other = aimed(scheduler(), "/v1/files/f", method=b"GET", memory=memory, node="b")
    assert (other.pin, other.kept) == ("b", None)


@pytest.mark.parametrize(
    ("kept", "kind", "status"),
    [
        ("f", RefusalKind.UNKNOWN_NODE, 503),
        ("f", RefusalKind.QUEUE_FULL, 429),
        (None, RefusalKind.UNKNOWN_NODE, 404),
    ],
)
def test_a_refusal_says_what_the_id_has_to_do_with_it(
    kept: str | None, kind: RefusalKind, status: int
) -> None:
    meant = replace(aimed(scheduler(), "/v1/files/f", method=b"GET"), kept=kept)
    answer = meant.refusal(Refuse(TicketId(1), kind, "It is lost.", None))
    assert answer.status == status
    assert (b"'f'" in answer.body) is (status == 503)
