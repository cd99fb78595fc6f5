"""Stories in which the nodes' speeds are known before the first call."""

from __future__ import annotations

from pair.core.estimates import Finished
from pair.core.events import Opened, Usage
from pair.core.names import EngineName, ModelName, NodeId, ReplicaId, TicketId
from pair.core.prompt import Prompt, block_end
from tests.core.story import Happening, Story

MODEL = ModelName("m")


def id_of(node: str) -> ReplicaId:
    return ReplicaId(NodeId(node), EngineName("echo:1"), MODEL)


def learned(story: Story, **service_s: float) -> Story:
    """Each node needs so long for 1,000 prompt tokens and 100 of answer, half for either; four
    characters are a token.
    """
    for node, seconds in service_s.items():
        usage = Usage(1000, 0, 100, seconds / 2, seconds / 2, None)
        known = Finished(id_of(node), MODEL, 4000, usage, None, seconds, 1)
        story.house.scheduler.matching.outlook.estimates.learn(known, story.house.now)
    return story


def prompt(*parts: str, chars: int = 4000) -> Prompt:
    """A prompt of `chars` characters whose blocks are the parts', equally long, one after the
    other; equal beginnings have equal fingerprints.
    """
    blocks = 0
    while block_end(blocks + 1) <= chars:
        blocks += 1
    marks, so_far = [], 0
    for block in range(blocks):
        part = parts[block * len(parts) // blocks]
        so_far = hash((so_far, part)) & (2**64 - 1)
        marks.append(so_far)
    return Prompt(chars, tuple(marks), 100)


def prompted(ticket: int, what: Prompt, **more: object) -> Happening:
    """A client's request with this prompt comes."""
    return Opened(TicketId(ticket), MODEL, streamed=True, prompt=what, **more)  # type: ignore[arg-type]


def alike(ticket: int) -> Happening:
    """A call of 1,000 prompt tokens that shares nothing with others, for 100 of answer."""
    return prompted(ticket, Prompt(4000, (), 100))
