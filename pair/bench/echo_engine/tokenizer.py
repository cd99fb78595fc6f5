"""How the echo engine counts: four characters of the rendered prompt are one token.

A real tokenizer would be slow, would need a vocabulary, and would tell a test nothing more. What
matters is kept: counts are deterministic, every message starts on a token boundary (as special
tokens do in a real template), and the rendered next turn of a chat begins with exactly the prompt
and the answer of this one, so that a prefix cache finds what a real engine's would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

CHARACTERS_PER_TOKEN = 4
# Fills a message up to a whole token. Never typed by a user, so it changes no words.
_FILLER = "\0"
# Enough of a digest to tell two images apart; an image counts as these few tokens.
_DIGEST_CHARACTERS = 16
_MARKER = "<|{}|>"
# A tool call echoes no more than this: enough to recognise it.
_ARGUMENT_CHARACTERS = 48


def whole_tokens(text: str) -> str:
    """`text` filled up to a whole number of tokens."""
    return text + _FILLER * (-len(text) % CHARACTERS_PER_TOKEN)


def count(text: str) -> int:
    """Tokens of `text`, a started one counted whole."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def shared_tokens(one: str, other: str) -> int:
    """How many whole tokens the two texts share from their start.

    By bisection over slices: comparing two 100 kB prompts costs microseconds, character by
    character it would cost milliseconds and the engine's clock would show it.
    """
    known_equal, limit = 0, min(len(one), len(other))
    while known_equal < limit:
        middle = (known_equal + limit + 1) // 2
        if one[known_equal:middle] == other[known_equal:middle]:
            known_equal = middle
        else:
            limit = middle - 1
    return known_equal // CHARACTERS_PER_TOKEN


def render(messages: Iterable[tuple[str, str]], tools: Sequence[Any] = ()) -> str:
    """The prompt of a chat: tools, (role, text) pairs, and the assistant's turn opened."""
    parts = []
    if tools:
        parts.append(_segment("tools", msgspec.json.encode(tools).decode()))
    parts.extend(_segment(role, text) for role, text in messages)
    parts.append(whole_tokens(_MARKER.format("assistant")))
    return "".join(parts)


def _segment(role: str, text: str) -> str:
    return whole_tokens(_MARKER.format(role)) + whole_tokens(text)


def text_of(content: object) -> str:
    """The text in a message's content, whatever the dialect: a string, None, or a list of parts.

    A part that holds no text (an image, a tool call) becomes a short marker with its digest, so
    that different parts are different prompts and a megabyte of base64 is not a million tokens.
    """
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "".join(text_of(part) for part in content)
        case {"text": str(text)}:
            return text
        case {"content": inner}:
            return text_of(inner)
        case _:
            digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()
            return _MARKER.format(digest[:_DIGEST_CHARACTERS])


def text_of_ids(ids: Sequence[int]) -> str:
    """A prompt that the client has tokenized itself: each id is one token here too."""
    return "".join(f"{number & 0xFFFF:04x}" for number in ids)


def echoed(words: str, tokens: int) -> str:
    """Exactly `tokens` tokens of answer: the words of the last message, repeated to fill."""
    wanted = tokens * CHARACTERS_PER_TOKEN
    phrase = (words[:wanted].replace(_FILLER, "") or "echo") + " "
    return (phrase * (wanted // len(phrase) + 1))[:wanted]


def beginning(text: str, tokens: int) -> str:
    """The first `tokens` tokens of `text`."""
    return text[: tokens * CHARACTERS_PER_TOKEN]


def tool_arguments(words: str) -> str:
    """Arguments of a scripted tool call as JSON; spaces, which JSON permits, fill the last one."""
    arguments = msgspec.json.encode({"echo": words[:_ARGUMENT_CHARACTERS]}).decode()
    return arguments + " " * (-len(arguments) % CHARACTERS_PER_TOKEN)


def pieces(text: str, first: int, last: int) -> list[str]:
    """The tokens numbered first .. last - 1 of `text`."""
    size = CHARACTERS_PER_TOKEN
    return [text[start : start + size] for start in range(first * size, last * size, size)]
