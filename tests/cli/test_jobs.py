from __future__ import annotations

from tests.cli.conftest import Pages, Pair
from tests.terminal.samples import call, job


def test_the_list_and_one_in_full(pair: Pair, pages: Pages) -> None:
    told = job(call("a", 0, 0, 0.5, 2), call("b", 0, 0, 0.5, 2))
    listed = {key: value for key, value in told.items() if key != "calls"}
    pages.put("/pair/v1/jobs", {"v": 1, "jobs": [listed]})
    pages.put("/pair/v1/jobs/team-1", told)
    assert "team-1" in pair("jobs", "--proxy", pages.url).out
    assert pair("jobs", "--proxy", pages.url, "--json").json == [listed]
    assert "1.90x as fast as a alone" in pair("jobs", "team-1", "--proxy", pages.url).out
    assert pair("jobs", "team-1", "--proxy", pages.url, "--json").json == told


def test_none_yet_and_an_unknown_one(pair: Pair, pages: Pages) -> None:
    pages.put("/pair/v1/jobs", {"v": 1, "jobs": []})
    assert pair("jobs", "--proxy", pages.url).out == "no job has run yet\n"
    run = pair("jobs", "nope", "--proxy", pages.url)
    assert (run.code, run.out) == (1, "")
    assert (
        run.err == "pair: the proxy remembers no job 'nope'; `pair jobs` lists those that it does\n"
    )
