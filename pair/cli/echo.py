"""`pair echo`: an engine without a model, for trying `pair` on any machine."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any

import typer

from pair.bench.echo_engine import EchoEngine, EchoSettings, parse_fault, parse_model
from pair.bench.echo_engine.settings import PersonaName
from pair.cli import exit_codes
from pair.cli.event_loop import run_until_stopped
from pair.cli.output import mention

_FIELDS = {each.name: each for each in dataclasses.fields(EchoSettings)}


def _option(name: str, flag: str, metavar: str | None, more: str = "") -> Any:
    """An option for one field of `EchoSettings`, with the field's own reason and default."""
    field = _FIELDS[name]
    unit = field.metadata["unit"]
    default = (
        "" if field.default in ((), "") else f" Default: {field.default} {unit}".rstrip() + "."
    )
    if name == "models":
        default = " Default: echo."
    return typer.Option(
        flag,
        metavar=metavar,
        help=field.metadata["reason"] + more + default,
        show_default=False,
    )


Text = str | None
Whole = int | None
Number = float | None


def echo(
    listen: Annotated[Text, _option("listen", "--listen", "HOST:PORT")] = None,
    persona: Annotated[PersonaName | None, _option("persona", "--persona", None)] = None,
    models: Annotated[
        list[str] | None,
        _option("models", "--model", "NAME[,alias=NAME]...", " May be given several times."),
    ] = None,
    slots: Annotated[Whole, _option("slots", "--slots", "N")] = None,
    prefill_rate_tokens_per_s: Annotated[
        Number, _option("prefill_rate_tokens_per_s", "--prefill-rate", "RATE")
    ] = None,
    decode_rate_tokens_per_s: Annotated[
        Number, _option("decode_rate_tokens_per_s", "--decode-rate", "RATE")
    ] = None,
    slowdown_per_busy_slot: Annotated[
        Number, _option("slowdown_per_busy_slot", "--slowdown", "SHARE")
    ] = None,
    answer_tokens: Annotated[Whole, _option("answer_tokens", "--answer-tokens", "N")] = None,
    context_tokens: Annotated[Whole, _option("context_tokens", "--context", "N")] = None,
    load_time_s: Annotated[Number, _option("load_time_s", "--load-time", "SECONDS")] = None,
    queue_limit: Annotated[Whole, _option("queue_limit", "--queue-limit", "N")] = None,
    similarity: Annotated[Number, _option("similarity", "--similarity", "SHARE")] = None,
    cache_ram_tokens: Annotated[Whole, _option("cache_ram_tokens", "--cache-ram", "N")] = None,
    api_key: Annotated[Text, _option("api_key", "--api-key", "KEY")] = None,
    idle_close_s: Annotated[Number, _option("idle_close_s", "--idle-close", "SECONDS")] = None,
    faults: Annotated[
        list[str] | None,
        _option(
            "faults",
            "--fault",
            "FAULT",
            " Such as cut,after_events=3 or status,status=503,every=4. May be given several times.",
        ),
    ] = None,
) -> None:
    """Run an engine that echoes: OpenAI-compatible, with slots, rates, a prefix cache and faults.

    Name it with `pair serve --node http://127.0.0.1:PORT`, or put it where `pair node` looks, such
    as --listen 127.0.0.1:8080.
    """
    given: dict[str, Any] = {
        name: value
        for name, value in locals().items()
        if name in _FIELDS and value is not None and name not in ("models", "faults")
    }
    with exit_codes.usage():
        if models:
            given["models"] = tuple(parse_model(text) for text in models)
        if faults:
            given["faults"] = tuple(parse_fault(text) for text in faults)
        settings = dataclasses.replace(EchoSettings(), **given)

    async def program(stop: asyncio.Event) -> int:
        async with EchoEngine(settings) as engine:
            names = ", ".join(model.name for model in settings.models)
            mention(f"echo engine at {engine.url} ({settings.persona}; {names})")
            await stop.wait()
        return exit_codes.OK

    raise typer.Exit(run_until_stopped(program))
