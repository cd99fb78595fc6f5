from __future__ import annotations

from pair.core.names import SessionId
from pair.core.sessions import Sessions
from tests.core.speeds_of import id_of

ONE, TWO, THREE = map(SessionId, ("one", "two", "three"))


def test_a_conversation_is_where_it_was_last() -> None:
    sessions = Sessions(10)
    sessions.served(ONE, id_of("a"), 100)
    sessions.served(ONE, id_of("b"), 200)
    sessions.served(None, id_of("a"), 300)
    assert sessions.home(ONE) == id_of("b")
    assert sessions.chars_at(ONE, id_of("b")) == 200
    assert sessions.chars_at(ONE, id_of("a")) == 0
    assert (sessions.home(None), sessions.chars_at(None, id_of("a"))) == (None, 0)
    assert sessions.home(TWO) is None


def test_the_least_recently_used_is_forgotten() -> None:
    sessions = Sessions(2)
    for session in (ONE, TWO, ONE, THREE):
        sessions.served(session, id_of("a"), 1)
    assert len(sessions) == 2
    assert sessions.home(TWO) is None
    assert sessions.home(ONE) == sessions.home(THREE) == id_of("a")
