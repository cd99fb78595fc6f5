"""The echo engine: a pretended inference engine that is honest about time.

It speaks the APIs of the engines that `pair` works with, takes as long as its rates say, remembers
prompts as llama.cpp does, keeps a journal of what it did, and fails on purpose where a script says
so. It stands in for a GPU in tests, in the benchmark, in `pair demo --simulated`, and for users who
try `pair` on any machine.
"""

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.faults import header_text, parse_fault
from pair.bench.echo_engine.journal import Entry, Journal
from pair.bench.echo_engine.settings import EchoModel, EchoSettings, parse_model

__all__ = [
    "EchoEngine",
    "EchoModel",
    "EchoSettings",
    "Entry",
    "Journal",
    "header_text",
    "parse_fault",
    "parse_model",
]
