from __future__ import annotations

from pathlib import Path

import pytest

from pair.cli.running_proxy import RunningProxy
from pair.cli.wiring import make_proxy
from pair.core.names import ModelName, NodeId
from pair.core.strategies import STRATEGIES
from pair.errors import RequestFault
from pair.settings import ModelStrategy, ProxySettings, Settings
from tests.cli.conftest import Pages, Pair
from tests.terminal.samples import node, replica, snapshot

PATH = "/pair/v1/strategy"


def in_use(strategy: str = "queue-depth", **models: str) -> dict[str, object]:
    known = ["queue-depth", "round-robin"]
    return {"v": 1, "strategy": strategy, "models": models, "known": known}


def test_what_is_in_use_is_shown(pair: Pair, pages: Pages) -> None:
    pages.put(PATH, in_use())
    run = pair("strategy", "--proxy", pages.url)
    assert [line.split() for line in run.out.splitlines()][2:] == [["all", "queue-depth"]]
    pages.put(PATH, in_use(b="round-robin", a="queue-depth"))
    shown = pair("strategy", "--proxy", pages.url).out.splitlines()
    assert [line.split() for line in shown][2:] == [
        ["all", "others", "queue-depth"],
        ["a", "queue-depth"],
        ["b", "round-robin"],
    ]
    assert pair("strategy", "--proxy", pages.url, "--json").json == in_use(
        b="round-robin", a="queue-depth"
    )
    assert pages.got == []


def test_a_switch_is_asked_for_and_told_how_to_keep(pair: Pair, pages: Pages) -> None:
    pages.put(PATH, in_use("round-robin"))
    run = pair("strategy", "round-robin", "--proxy", pages.url)
    assert pages.got == [(PATH, {"strategy": "round-robin", "model": None})]
    (*_, last) = run.out.splitlines()
    assert last == "until the proxy stops; to keep it: pair settings set proxy.strategy round-robin"


def test_one_for_a_model_keeps_the_others(pair: Pair, pages: Pages) -> None:
    pages.put(PATH, in_use(m="round-robin", other="queue-depth"))
    pages.put("/pair/v1/snapshot", snapshot(node("a", replica("big", aliases=["m"]))))
    run = pair("strategy", "round-robin", "--model", "m", "--proxy", pages.url)
    assert pages.got == [(PATH, {"strategy": "round-robin", "model": "m"})]
    assert "pair settings set strategies m=round-robin other=queue-depth" in run.out
    assert run.err == ""
    pages.put("/pair/v1/snapshot", snapshot(node("a", replica("big"))))
    run = pair("strategy", "round-robin", "--model", "m", "--proxy", pages.url, "--json")
    assert run.err == "pair: no node holds m now; the strategy waits for one that does\n"
    assert run.json["models"]["m"] == "round-robin"


def test_the_proxys_own_sentence_on_an_unknown_name(pair: Pair, pages: Pages) -> None:
    said = 'There is no strategy "fastest"; choose one of queue-depth, round-robin.'
    pages.put(PATH, {"error": {"message": said, "code": "unknown_strategy"}}, 400)
    run = pair("strategy", "fastest", "--proxy", pages.url)
    assert (run.code, run.out, run.err) == (1, "", f"pair: {said}\n")


@pytest.mark.parametrize(
    ("status", "page", "words"),
    [
        (404, {"error": {"message": "no"}}, "that proxy cannot switch its strategy"),
        (400, {"error": "no"}, "is not a pair proxy"),
        (400, {"v": 1}, "is not a pair proxy"),
    ],
)
def test_a_proxy_that_cannot_is_told_as_one(
    pair: Pair, pages: Pages, status: int, page: object, words: str
) -> None:
    pages.put(PATH, page, status)
    run = pair("strategy", "round-robin", "--proxy", pages.url)
    assert (run.code, run.out) == (1, "")
    assert words in run.err


def test_a_model_without_a_name_is_wrong_usage(pair: Pair) -> None:
    run = pair("strategy", "--model", "m")
    assert (run.code, run.out) == (2, "")
    assert "--model goes with the NAME of a strategy" in run.err


async def test_a_running_proxy_is_switched_and_begins_with_its_settings(tmp_path: Path) -> None:
    settings = Settings(
        proxy=ProxySettings(listen=("127.0.0.1:0",), discovery=False, strategy="queue-depth"),
        strategies=(ModelStrategy("m", "round-robin"),),
    )
    async with make_proxy(settings, NodeId("p" * 32), tmp_path) as proxy:
        async with RunningProxy(f"http://{proxy.addresses[0]}") as running:
            shown = await running.strategy()
            assert (shown["strategy"], shown["models"]) == ("queue-depth", {"m": "round-robin"})
            assert shown["known"] == list(STRATEGIES)
            await running.switch("round-robin", None)
            shown = await running.switch("queue-depth", "qwen3:30b")
            assert (shown["strategy"], shown["models"]) == (
                "round-robin",
                {"m": "round-robin", "qwen3:30b": "queue-depth"},
            )
            with pytest.raises(RequestFault, match="choose one of"):
                await running.switch("fastest", None)
            assert (await running.snapshot())["strategy"] == "round-robin"
        assert proxy.scheduler.matching.strategy_of(ModelName("qwen3:30b")).name == "queue-depth"
