"""What a strategy may answer, seen through the scheduler."""

from __future__ import annotations

from pair.core.events import StrategyChosen
from pair.core.names import ModelName
from tests.core.house import replica, report
from tests.core.speeds_of import alike, learned
from tests.core.story import Story, call, comes, hangs_up


def test_a_strategy_is_switched_while_tickets_wait_and_they_are_asked_again() -> None:
    story = learned(Story("ab", "finish-time"), a=1.0, b=9.0)
    story.sees(alike(1), alike(2)).expects("1 to a")
    story.sees(StrategyChosen("queue-depth")).expects("2 to b").sees(*map(hangs_up, (1, 2)))


def test_a_model_may_have_a_strategy_of_its_own() -> None:
    story = Story((), "finish-time")
    for node in "ab":
        story.sees(comes(node, says=report(node, replica("m"), replica("n"))))
    learned(story.at(0.05), a=1.0, b=9.0)
    story.sees(StrategyChosen("round-robin", ModelName("m")))
    story.sees(alike(1), alike(2)).expects("1 to a", "2 to b")
    matching = story.house.scheduler.matching
    assert matching.strategy_of(ModelName("m")).name == "round-robin"
    assert matching.strategy_of(ModelName("n")).name == "finish-time"
    story.sees(StrategyChosen("kv-aware"), call(3, "n")).expects("3 to a")
    assert matching.strategy_of(ModelName("m")).name == "round-robin"
    assert matching.strategy_of(ModelName("n")).name == "kv-aware"
    story.sees(*map(hangs_up, (1, 2, 3)))
