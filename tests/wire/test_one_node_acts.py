"""Which requests change one machine."""

from __future__ import annotations

import pytest

from pair.wire.one_node_acts import act_by_query, one_node_act


@pytest.mark.parametrize(
    ("method", "path", "holds"),
    [
        (b"POST", "/api/pull", False),
        (b"POST", "/api/create", False),
        (b"POST", "/api/blobs/sha256:00", False),
        (b"POST", "/api/push", True),
        (b"POST", "/api/copy", True),
        (b"DELETE", "/api/delete", True),
        (b"DELETE", "/v1/models/a/b", True),
        (b"POST", "/slots/3", True),
        (b"POST", "/v1/load_lora_adapter", False),
        (b"POST", "/v1/unload_lora_adapter", True),
        (b"POST", "/models", False),
        (b"DELETE", "/models", True),
        (b"POST", "/v1/chat/completions/control", True),
        (b"POST", "/api/signout", True),
        (b"POST", "/abort_requests", True),
        (b"PUT", "/set_internal_state", True),
        (b"GET", "/flush_cache", True),
        (b"POST", "/flush_cache", True),
    ],
)
def test_an_act_and_whether_its_model_must_be_there(method: bytes, path: str, holds: bool) -> None:
    act = one_node_act(method, path)
    assert act is not None
    assert act.holds is holds


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (b"GET", "/api/pull"),
        (b"GET", "/models"),
        (b"POST", "/v1/chat/completions/batch"),
        (b"GET", "/slots/3"),
        (b"GET", "/props"),
        (b"GET", "/v1/models/a"),
        (b"POST", "/api/show"),
        (b"POST", "/api/chat"),
        (b"DELETE", "/v1/files/file-1"),
        (b"POST", "/v1/chat/completions"),
    ],
)
def test_all_else_any_node_may_answer(method: bytes, path: str) -> None:
    assert one_node_act(method, path) is None


def test_llama_cpps_list_is_an_act_where_it_is_to_be_read_anew() -> None:
    act = act_by_query(b"GET", "/models", "autoload=1&reload=1")
    assert act is not None
    assert not act.holds
    assert act_by_query(b"GET", "/models", "") is None
    assert act_by_query(b"POST", "/models", "reload=1") is None
    assert act_by_query(b"GET", "/v1/models", "reload=1") is None
