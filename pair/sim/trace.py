"""Recorded workloads as calls: who asked when, how much, and which prompts began alike.

Three public forms, recognised by their first line: JSON lines as Mooncake publishes them, the CSV
of Azure's LLM traces, and a CSV of coding agents whose turns are told one by one. Apart from
`workload.py`, which makes calls up. A trace may be larger than memory: it is read line by line, and
only the calls that are wanted are kept.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain, count
from typing import Annotated, Final

import msgspec

from pair.core.names import FlowId, JobId, SessionId
from pair.errors import SettingsError
from pair.sim.text import Run, Text
from pair.sim.workload import PlannedCall

CALLS_LIMIT = 100_000
"""Most calls of a trace unless the user says more: some 3 kB each with their texts."""

TOKENS_LIMIT = 10_000_000
"""Longest prompt or answer that is believed: ten times the largest windows there are."""

SHOWN_CHARS = 40
"""Most that an error quotes of a cell."""

TIME_LIMIT_S = 1e12
"""Largest time that is believed; wall clocks in seconds are a thousandth of it."""

MOONCAKE_BLOCK_TOKENS = 512
"""What one of Mooncake's `hash_ids` stands for, together with all before it."""

SIBLINGS_SHARE = 0.98
"""Share of a sub-agent's first prompt that its siblings begin with, too: 98 to 99% in the recorded
sessions.
"""


class TraceForm(StrEnum):
    """Which kind of trace a file is."""

    MOONCAKE = "mooncake"
    AZURE = "azure"
    AGENTS = "agents"


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a trace is wanted, and how fast it is played.

    Attributes:
        limit: most calls; of more, the first in the file.
        from_s, until_s: on the trace's own clock, whose 0 is its first line (of agents: the
            beginning of each session); a line may be before it, `until_s` itself is out.
        speed_up: divides the times between calls, thinking included; not what calls cost.
    """

    limit: int = CALLS_LIMIT
    from_s: float = -math.inf
    until_s: float = math.inf
    speed_up: float = 1.0


@dataclass(frozen=True, slots=True)
class Trace:
    """The calls, in the order of their times; `cut`: the limit left some out."""

    form: TraceForm
    calls: list[PlannedCall]
    cut: bool


def read_trace(lines: Iterable[str], name: str, window: Window) -> Trace:
    """The calls of a trace that lie in the window, the first of them at 0 s.

    Args:
        name: of the file, for errors.

    Raises:
        SettingsError: it is none of the three, a line is wrong (with its number), or nothing lies
            in the window.
    """
    numbered = enumerate(lines, 1)
    start = next(((number, line) for number, line in numbered if line.strip()), None)
    if start is None:
        raise SettingsError(f"{name}: the trace is empty")
    number, first = start
    if first.lstrip().startswith("{"):
        form, rows = TraceForm.MOONCAKE, _mooncake(chain([start], numbered), name)
    else:
        columns = _cells_of(first, f"{name}:{number}")
        form = _form_of_table(columns, f"{name}:{number}")
        table = _table(columns, (line for _, line in numbered), name, number)
        rows = _azure(table) if form is TraceForm.AZURE else _agents(table)
    calls, cut = _wanted(rows, window)
    if not calls:
        raise SettingsError(f"{name}: no call of the trace lies between the times asked for")
    return Trace(form, calls, cut)


# --- from rows to calls ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """One call as its line says it.

    Attributes:
        at_s: on the trace's clock. call: the same, its times not yet set.
        line: the number of its line; `follows` names the line of the turn before.
        after_s: from the end of that turn.
    """

    line: int
    at_s: float
    call: PlannedCall
    follows: int | None = None
    after_s: float = 0.0


def _wanted(rows: Iterable[_Row], window: Window) -> tuple[list[PlannedCall], bool]:
    kept: list[_Row] = []
    cut = False
    for row in rows:
        if window.from_s <= row.at_s < window.until_s:
            if len(kept) == window.limit:
                cut = True
                break
            kept.append(row)
    if not kept:
        return [], cut
    first_s = min(row.at_s for row in kept)
    begins_s: dict[int, float] = {}
    for row in kept:
        # A turn whose predecessor is not wanted comes when it came; another may come from its
        # conversation's beginning on, as soon as it has been thought about.
        begins_s[row.line] = begins_s.get(row.follows or 0, row.at_s - first_s)
    kept.sort(key=lambda row: begins_s[row.line])
    places = {row.line: place for place, row in enumerate(kept)}
    calls = []
    for row in kept:
        call = replace(row.call, at_s=begins_s[row.line] / window.speed_up)
        if row.follows in places:
            follows, after_s = places[row.follows], row.after_s / window.speed_up
            call = replace(call, follows=follows, after_s=after_s)
        calls.append(call)
    return calls, cut


# --- Mooncake -------------------------------------------------------------------------------------


class _MooncakeLine(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[Annotated[int, msgspec.Meta(ge=0)]] = []


def _mooncake(lines: Iterable[tuple[int, str]], name: str) -> Iterator[_Row]:
    decoder = msgspec.json.Decoder(_MooncakeLine)
    first_s: float | None = None
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            said = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as fault:
            raise SettingsError(f"{where}: {fault}") from fault
        at_s = _believed_s(said.timestamp / 1000, "timestamp", where)
        tokens = _believed_tokens(said.input_length, "input_length", 1, where)
        blocks = math.ceil(tokens / MOONCAKE_BLOCK_TOKENS)
        if len(said.hash_ids) > blocks:
            raise SettingsError(
                f"{where}: {len(said.hash_ids)} hash_ids, but {tokens} tokens are {blocks} blocks"
                f" of {MOONCAKE_BLOCK_TOKENS}"
            )
        text = tuple(
            Run(each, min(MOONCAKE_BLOCK_TOKENS, tokens - MOONCAKE_BLOCK_TOKENS * place))
            for place, each in enumerate(said.hash_ids)
        )
        rest = tokens - MOONCAKE_BLOCK_TOKENS * len(text)
        if rest > 0:  # what no id stands for is nobody else's; their ids are from 0 on
            text = (*text, Run(-number, rest))
        output = _believed_tokens(said.output_length, "output_length", 0, where)
        first_s = at_s if first_s is None else first_s
        yield _Row(number, at_s - first_s, PlannedCall(0.0, tokens, output, text=text))


# --- tables ---------------------------------------------------------------------------------------

_AZURE_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_AGENT_COLUMNS: Final = (
    *("trace", "agent", "subagent_type", "t_s"),
    *("in_tokens", "out_tokens", "api_time_s", "think_time_s"),
)
_MAIN_AGENT: Final = "parent"


def _cells_of(line: str, where: str) -> list[str]:
    """Of the first line."""
    try:
        return [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error as fault:  # one cell without end, of a file that is no text
        raise SettingsError(f"{where}: this is no trace that pair knows: {fault}") from fault


def _form_of_table(columns: Sequence[str], where: str) -> TraceForm:
    for form, needed in (
        (TraceForm.AZURE, _AZURE_COLUMNS),
        (TraceForm.AGENTS, _AGENT_COLUMNS),
    ):
        if needed[0] in columns:
            missing = [column for column in needed if column not in columns]
            if missing:
                raise SettingsError(f"{where}: the column {missing[0]} is missing")
            return form
    raise SettingsError(
        f"{where}: this is no trace that pair knows; those are JSON lines with timestamp,"
        f" input_length, output_length and hash_ids, and tables with the columns"
        f" {', '.join(_AZURE_COLUMNS)} or {', '.join(_AGENT_COLUMNS)}"
    )


@dataclass(frozen=True, slots=True)
class _TableLine:
    """One line of a table, with the place where it stands."""

    number: int
    where: str
    cells: Mapping[str, str]

    def seconds(self, column: str) -> float:
        text = self.cells[column]
        try:
            value = float(text)
        except ValueError:
            raise SettingsError(
                f"{self.where}: {column} is {text[:SHOWN_CHARS]!r}, not a number"
            ) from None
        return _believed_s(value, column, self.where)

    def tokens(self, column: str, least: int) -> int:
        text = self.cells[column]
        try:
            value = int(text)
        except ValueError:
            raise SettingsError(
                f"{self.where}: {column} is {text[:SHOWN_CHARS]!r}, not a whole number"
            ) from None
        return _believed_tokens(value, column, least, self.where)


def _table(
    columns: Sequence[str], lines: Iterator[str], name: str, header_line: int
) -> Iterator[_TableLine]:
    reader = csv.reader(lines, strict=True)
    try:
        for cells in reader:
            if cells:
                number = header_line + reader.line_num
                where = f"{name}:{number}"
                if len(cells) != len(columns):
                    raise SettingsError(
                        f"{where}: {len(cells)} cells, but the table has {len(columns)} columns"
                    )
                yield _TableLine(number, where, dict(zip(columns, cells, strict=True)))
    except csv.Error as fault:
        raise SettingsError(f"{name}:{header_line + reader.line_num}: {fault}") from fault


def _azure(table: Iterable[_TableLine]) -> Iterator[_Row]:
    """No prompt begins like another: the trace does not say which do."""
    first: datetime | None = None
    for line in table:
        text = line.cells["TIMESTAMP"]
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise SettingsError(
                f"{line.where}: TIMESTAMP is {text[:SHOWN_CHARS]!r}, not a time such as"
                " 2023-11-16 18:17:03.97"
            ) from None
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        first = first or at
        call = PlannedCall(0.0, line.tokens("ContextTokens", 1), line.tokens("GeneratedTokens", 0))
        yield _Row(line.number, (at - first).total_seconds(), call)


# --- agents ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Agent:
    """One agent's context so far.

    Attributes:
        shared: the run that its siblings' prompts begin with, too.
        own: the id of all that follows.
        latest: the line of its turn before this one; at_s, ended_s: when that one came and ended.
    """

    shared: Run
    own: int
    tokens: int = 0
    latest: int = 0
    at_s: float = 0.0
    ended_s: float = 0.0

    def text(self, tokens: int) -> Text:
        """A context that grows goes on where it was."""
        if tokens <= self.shared.tokens:
            return (Run(self.shared.id, tokens),)
        return (self.shared, Run(self.own, tokens - self.shared.tokens))


class _Session:
    """The agents of one session: who follows whom, and whose prompts begin alike."""

    def __init__(self, name: str, ids: Iterator[int]) -> None:
        self.name = name
        self._ids = ids
        self._kinds: dict[str, int] = {}
        self._agents: dict[str, _Agent] = {}

    def turn(self, line: _TableLine) -> _Row:
        """Closed loops: a turn comes when the turn before has been answered and thought about; a
        sub-agent's first one so long after its parent's latest as it did.
        """
        who, at_s = line.cells["agent"], line.seconds("t_s")
        tokens, after_s = line.tokens("in_tokens", 1), line.seconds("think_time_s")
        follows: int | None = None
        agent, parent = self._agents.get(who), self._agents.get(_MAIN_AGENT)
        if agent is None:
            agent = self._agents[who] = self._begun(line.cells["subagent_type"], tokens)
            if parent is not None and parent.at_s <= at_s:
                follows, after_s = parent.latest, max(0.0, at_s - parent.ended_s)
        elif at_s < agent.at_s:
            raise SettingsError(f"{line.where}: t_s is before that of the turn of {who} before it")
        else:
            follows = agent.latest
            if tokens < agent.tokens:  # its context was made anew, in fewer words
                agent.own = next(self._ids)
        agent.tokens, agent.latest = tokens, line.number
        agent.at_s, agent.ended_s = at_s, at_s + line.seconds("api_time_s")
        call = PlannedCall(
            0.0,
            tokens,
            line.tokens("out_tokens", 0),
            job=JobId(self.name),
            text=agent.text(tokens),
            session=SessionId(f"{self.name}/{who}"),
            flow=FlowId(self.name),
        )
        return _Row(line.number, at_s, call, follows, after_s)

    def _begun(self, kind: str, tokens: int) -> _Agent:
        if kind not in self._kinds:
            self._kinds[kind] = next(self._ids)
        shared = Run(self._kinds[kind], max(1, int(SIBLINGS_SHARE * tokens)))
        return _Agent(shared, next(self._ids))


def _agents(table: Iterable[_TableLine]) -> Iterator[_Row]:
    ids = count(1)
    session = _Session("", ids)
    for line in table:
        if line.cells["trace"] != session.name:  # sessions stand one after the other
            session = _Session(line.cells["trace"], ids)
        yield session.turn(line)


# --- what is believed -----------------------------------------------------------------------------


def _believed_s(value: float, what: str, where: str) -> float:
    if not 0 <= value <= TIME_LIMIT_S:  # also what is no number
        raise SettingsError(f"{where}: {what} is {value!r}; right is a time from 0 on")
    return value


def _believed_tokens(value: int, what: str, least: int, where: str) -> int:
    if not least <= value <= TOKENS_LIMIT:
        raise SettingsError(
            f"{where}: {what} is {value}; right is a number of tokens from {least}"
            f" to {TOKENS_LIMIT:,}"
        )
    return value
