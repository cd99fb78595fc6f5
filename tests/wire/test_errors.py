"""Our own errors, as each dialect's clients take them apart."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pair.core.decisions import RefusalKind, Refuse
from pair.core.events import FailureKind
from pair.core.names import TicketId
from pair.core.refusals import NAMES_SHOWN
from pair.errors import RequestFault
from pair.wire.dialects import Dialect
from pair.wire.errors import (
    closing_event,
    fault_answer,
    loop_answer,
    model_missing,
    models_sentence,
    own_answer,
    own_error,
    refusal_answer,
)
from tests.core.story import Story, call, calls, drains, failed


def test_openai_clients_find_message_type_code_and_param() -> None:
    body = json.loads(own_error(Dialect.OPENAI, 400, "invalid_json", "no «JSON»", "model"))
    assert body == {
        "error": {
            "message": "no «JSON»",
            "type": "invalid_request_error",
            "code": "invalid_json",
            "param": "model",
        }
    }


def test_anthropic_clients_find_their_type() -> None:
    body = json.loads(own_error(Dialect.ANTHROPIC, 404, "model_not_found", "none"))
    assert body["type"] == "error"
    assert body["error"]["type"] == "not_found_error"
    assert body["error"]["message"] == "none"


def test_ollama_clients_find_a_string() -> None:
    assert json.loads(own_error(Dialect.OLLAMA, 503, "node_busy", "full"))["error"] == "full"


@pytest.mark.parametrize(
    ("status", "openai", "anthropic"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (404, "invalid_request_error", "not_found_error"),
        (413, "invalid_request_error", "request_too_large"),
        (429, "rate_limit_error", "rate_limit_error"),
        (502, "server_error", "api_error"),
        (503, "server_error", "overloaded_error"),
    ],
)
def test_the_type_follows_the_status(status: int, openai: str, anthropic: str) -> None:
    assert json.loads(own_error(Dialect.OPENAI, status, "x", "y"))["error"]["type"] == openai
    assert json.loads(own_error(Dialect.ANTHROPIC, status, "x", "y"))["error"]["type"] == anthropic


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        (RefusalKind.UNKNOWN_MODEL, 404, "model_not_found"),
        (RefusalKind.UNKNOWN_NODE, 404, "node_not_found"),
        (RefusalKind.NO_NODE, 503, "no_node"),
        (RefusalKind.QUEUE_FULL, 429, "queue_full"),
        (RefusalKind.WAITED_TOO_LONG, 503, "waited_too_long"),
        (RefusalKind.SHUTTING_DOWN, 503, "shutting_down"),
        (RefusalKind.ATTEMPTS_SPENT, 502, "attempts_spent"),
    ],
)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_every_refusal_has_status_code_particulars_and_advice(
    dialect: Dialect, kind: RefusalKind, status: int, code: str
) -> None:
    answer = refusal_answer(dialect, Refuse(TicketId(1), kind, "Three wait."))
    assert answer.status == status
    text = answer.body.decode()
    assert f'"code": "{code}"' in text
    assert "Three wait." in text
    assert len(text) > len("Three wait.") + 40
    assert (b"retry-after" in dict(answer.headers)) == (status in (429, 503))
    assert dict(answer.headers)[b"content-type"] == b"application/json"


def full() -> Story:
    return Story("a", waiting_limit=0).at(1.0).sees(*calls(1, 2))


def waited() -> Story:
    return Story("a", wait_limit_s=30.0).at(1.0).sees(*calls(1, 2)).at(32.0)


def spent() -> Story:
    story = Story("a", attempts_limit=1).at(1.0).sees(call(1))
    return story.sees(failed(1, FailureKind.RESET, "The engine closed the connection."))


@pytest.mark.parametrize(
    ("kind", "told", "text"),
    [
        (
            RefusalKind.UNKNOWN_MODEL,
            lambda: Story("a").at(9.0).sees(call(1, "x")),
            (
                "No node holds the model 'x'; the models in this house are: m. "
                "Ask for one that is there, or load yours on a machine."
            ),
        ),
        (
            RefusalKind.UNKNOWN_NODE,
            lambda: Story("a").at(9.0).sees(call(1, pin="pc")),
            (
                "There is no node 'pc'; the nodes are: a. Name another one by its id (`pair nodes` "
                "lists them), or leave the header x-pair-node out to let any machine answer."
            ),
        ),
        (
            RefusalKind.NO_NODE,
            lambda: Story("").at(9.0).sees(call(1)),
            (
                "No node has been found. Start `pair node` on a machine with a model, or name its "
                "engine with `pair serve --node URL`; `pair nodes` shows what is known."
            ),
        ),
        (
            RefusalKind.QUEUE_FULL,
            full,
            (
                "0 requests wait already, which is the limit (setting queue.limit). "
                "Send fewer at a time, add a machine, or raise the limit."
            ),
        ),
        (
            RefusalKind.WAITED_TOO_LONG,
            waited,
            (
                "No slot became free within 30 s (setting queue.wait_limit_s). "
                "Try again later, add a machine, or raise the limit."
            ),
        ),
        (
            RefusalKind.SHUTTING_DOWN,
            lambda: Story("a").at(1.0).sees(drains(), call(1)),
            "This proxy is being stopped and takes nothing new. Try again when it is up.",
        ),
        (
            RefusalKind.ATTEMPTS_SPENT,
            spent,
            (
                "The only attempt failed: The engine closed the connection. "
                "`pair nodes` shows the state of the machines; try again once one is ready."
            ),
        ),
    ],
)
def test_the_whole_text_of_every_refusal(
    kind: RefusalKind, told: Callable[[], Story], text: str
) -> None:
    """What the core really says, with what stands here: two sentences, nothing said twice."""
    refuse = told().house.said[-1]
    assert isinstance(refuse, Refuse)
    assert refuse.kind is kind
    openai, anthropic, ollama = (
        json.loads(refusal_answer(dialect, refuse).body)["error"] for dialect in Dialect
    )
    assert openai["message"] == anthropic["message"] == ollama == text


def test_the_core_decides_when_to_come_back() -> None:
    refuse = Refuse(TicketId(1), RefusalKind.QUEUE_FULL, "", retry_after_s=17)
    assert dict(refusal_answer(Dialect.OPENAI, refuse).headers)[b"retry-after"] == b"17"
    zero = own_answer(Dialect.OPENAI, 502, "x", "y", retry_after_s=0)
    assert dict(zero.headers)[b"retry-after"] == b"0"


def test_the_clients_fault_keeps_status_code_and_param() -> None:
    fault = RequestFault(413, "body_too_large", "Too large.", param="messages")
    answer = fault_answer(Dialect.OPENAI, fault)
    assert answer.status == 413
    assert json.loads(answer.body)["error"]["code"] == "body_too_large"
    assert json.loads(answer.body)["error"]["param"] == "messages"


def test_a_missing_model_is_answered_with_those_that_exist() -> None:
    fault = model_missing(["b", "a"])
    assert (fault.status, fault.code, fault.param) == (400, "model_required", "model")
    assert "There are: a, b." in str(fault)
    assert "No model is known" in str(model_missing([]))


def test_a_long_list_of_models_is_cut() -> None:
    many = [f"m{index:03}" for index in range(NAMES_SHOWN + 5)]
    assert models_sentence(many).endswith("m019 and 5 more.")


def test_a_closing_event_is_one_whole_event() -> None:
    assert closing_event(Dialect.OPENAI, b"{}") == b"data: {}\n\n"
    assert closing_event(Dialect.ANTHROPIC, b"{}") == b"event: error\ndata: {}\n\n"
    assert closing_event(Dialect.OLLAMA, b"{}") == b"{}\n"


def test_a_loop_is_told_with_what_ends_it() -> None:
    answer = loop_answer(Dialect.OPENAI)
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (508, "node_loop")
    assert "take this address out of that node's list of engines" in error["message"]
