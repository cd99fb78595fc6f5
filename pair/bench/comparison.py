"""The measurement behind "how much faster": the same calls on one node alone and on the whole
house, side by side.

Rounds are interleaved, because a machine's speed drifts over minutes more than the difference that
is to be seen; figures are medians over the rounds. The two jobs of a round are named so that the
proxy itself reports the measured baseline (`NAME/alone`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pair.bench.runner import Answer, Run, Target, run_directly, run_through
from pair.bench.workload import Workload

Step = Callable[[str], None]
"""Told what is being run now, in words."""

Quiet = Callable[[], Awaitable[None]]
"""Returns when the house is idle, by the proxy's own books."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round; `direct` only where the engines' own URLs were given."""

    job: str
    alone: Run
    together: Run
    direct: Run | None

    @property
    def speedup(self) -> float:
        return self.alone.makespan_s / self.together.makespan_s

    @property
    def direct_speedup(self) -> float | None:
        return None if self.direct is None else self.alone.makespan_s / self.direct.makespan_s


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rounds of one bench."""

    rounds: tuple[Round, ...]

    @property
    def speedup(self) -> float:
        """Baseline makespan over makespan, median of the rounds."""
        return median(each.speedup for each in self.rounds)

    @property
    def of_direct(self) -> float | None:
        """The speed-up's share of what a client reaches that drives the engines itself, median of
        the rounds; None without that arm.
        """
        shares = [
            each.speedup / d for each in self.rounds if (d := each.direct_speedup) is not None
        ]
        return median(shares) if shares else None


class Comparer:
    """Runs rounds against one proxy.

    Args:
        base_url: the proxy's, ending in `/v1`.
        alone_on: id or name of the node whose lone run is the baseline.
        direct: engines by name, for the arm that leaves the proxy out.
    """

    def __init__(
        self,
        base_url: str,
        workload: Workload,
        *,
        name: str,
        alone_on: str,
        direct: Mapping[str, str] | None = None,
    ) -> None:
        self._base_url = base_url
        self._workload = workload
        self._name = name
        self._alone_on = alone_on
        self._direct = dict(direct or {})

    async def warm_up(self, nodes: Sequence[str], progress: Callable[[Answer], None]) -> None:
        """One call to each node, so that no round pays for a cold model or an unseen system
        prompt.
        """
        once = Workload(self._workload.model, 1, 8, self._workload.system_repeats)
        for node in nodes:
            headers = {"x-pair-node": node, "x-pair-job": f"{self._name}/warm-up"}
            await self._through(once, headers, progress)

    async def rounds(
        self, count: int, step: Step, quiet: Quiet, progress: Callable[[Answer], None]
    ) -> Comparison:
        """Run `count` rounds; the order of the arms turns round by round.

        `quiet` is awaited before each arm: after the one that leaves the proxy out, the nodes'
        latest reports still tell of foreign work, and the next arm would be kept off those slots.
        """
        done = []
        for number in range(1, count + 1):
            job = self._name if count == 1 else f"{self._name}-{number}"
            runs: dict[str, Run] = {}
            arms = ["alone", "together", *(["direct"] if self._direct else [])]
            turn = (number - 1) % len(arms)
            for arm in arms[turn:] + arms[:turn]:
                step(f"round {number} of {count}: {_WORDS[arm]}")
                await quiet()
                runs[arm] = await self._arm(arm, job, progress)
            done.append(Round(job, runs["alone"], runs["together"], runs.get("direct")))
        return Comparison(tuple(done))

    async def _arm(self, arm: str, job: str, progress: Callable[[Answer], None]) -> Run:
        if arm == "direct":
            # llama-server closes a kept connection now and then just as the next request is sent.
            targets = {name: Target(url, retries=2) for name, url in self._direct.items()}
            try:
                return await run_directly(targets, self._workload, progress)
            finally:
                for target in targets.values():
                    await target.close()
        headers = {"x-pair-job": job}
        if arm == "alone":
            headers = {"x-pair-job": f"{job}/alone", "x-pair-node": self._alone_on}
        return await self._through(self._workload, headers, progress)

    async def _through(
        self, workload: Workload, headers: Mapping[str, str], progress: Callable[[Answer], None]
    ) -> Run:
        target = Target(self._base_url, headers)
        try:
            return await run_through(target, workload, progress)
        finally:
            await target.close()


_WORDS = {
    "alone": "all calls on one node alone (the baseline)",
    "together": "all calls on all nodes",
    "direct": "all calls by a client that drives the engines itself",
}
