"""`pair bench`: how much faster the house is than one node, measured through a running proxy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from pair.cli.environment import own_config
from pair.cli.event_loop import run
from pair.cli.exit_codes import usage
from pair.cli.options import JsonOption, ProxyOption
from pair.cli.output import show, show_json
from pair.cli.running_proxy import proxy_url
from pair.errors import SettingsError
from pair.terminal.bench_report import bench_report


def bench(
    proxy: ProxyOption = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Needed where the house has several models."),
    ] = None,
    calls: Annotated[
        int, typer.Option("--calls", metavar="N", min=1, help="Equal calls, all sent at once.")
    ] = 6,
    output_tokens: Annotated[
        int, typer.Option("--output-tokens", metavar="N", min=1, help="Length of each answer.")
    ] = 64,
    prompt_repeats: Annotated[
        int,
        typer.Option(
            "--prompt-repeats",
            metavar="N",
            min=1,
            help="How often the shared system prompt is repeated, to make it long.",
        ),
    ] = 1,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="Figures are medians over these.")
    ] = 3,
    alone_on: Annotated[
        str | None,
        typer.Option(
            "--alone-on",
            metavar="NODE",
            help="The node that is the baseline. Default: the fastest in the warm-up.",
        ),
    ] = None,
    direct: Annotated[
        list[str] | None,
        typer.Option(
            "--direct",
            metavar="NAME=URL",
            help="An engine's own URL; with these, each round also runs without the proxy, as a"
            " client could that knew every engine. May be given several times.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send the same calls to one node alone and to the whole house, and report the speed-up."""
    # Not at the top: openai takes half a second to import, and no other command needs it.
    from pair.cli.measuring import measure

    url = proxy_url(own_config({}).settings, proxy)
    with usage():
        engines = direct_engines(direct or [])
    sizes = {"calls": calls, "output_tokens": output_tokens, "system_repeats": prompt_repeats}
    report = run(measure(url, model, sizes, rounds, alone_on, engines))
    if as_json:
        show_json(report)
    else:
        show(bench_report(report))


def direct_engines(texts: Sequence[str]) -> dict[str, str]:
    """`NAME=URL` each; the URL gets the `/v1` that a client's base URL has.

    Raises:
        SettingsError: one is not of that form.
    """
    engines: dict[str, str] = {}
    for text in texts:
        name, equals, url = text.partition("=")
        if not (name and equals and url.startswith("http")):
            raise SettingsError(
                f"--direct takes NAME=URL such as attic=http://192.168.1.20:8080, not {text!r}"
            )
        engines[name] = url.rstrip("/").removesuffix("/v1") + "/v1"
    return engines
