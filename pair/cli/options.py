"""Options that several commands share, so that they are called and told the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pair.core.strategies import STRATEGIES

ProxyOption = Annotated[
    str | None,
    typer.Option(
        "--proxy",
        metavar="URL",
        help="The running proxy to ask; by default the one of this machine's settings,"
        " http://127.0.0.1:7247 unless you changed proxy.listen.",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print exact JSON to stdout instead of a table.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings file to use instead of the one in your config folder.",
        show_default=False,
    ),
]

# --- of the commands that run a proxy or a node --------------------------------------------------

Texts = list[str] | None

ListenOption = Annotated[
    Texts,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where clients connect to the proxy; may be given several times."
        " Default: 127.0.0.1:7247.",
    ),
]
FixedNodeOption = Annotated[
    Texts,
    typer.Option(
        "--node",
        metavar="URL[,slots=N][,name=NAME][,key_env=VARIABLE][,key_file=PATH]",
        help="A node or any OpenAI-compatible engine to use besides those found; may be given"
        " several times. Replaces the nodes of the settings file. An API key is read from a"
        " variable or a file, never from here.",
    ),
]
DiscoveryOption = Annotated[
    bool | None,
    typer.Option(
        "--discovery/--no-discovery",
        help="Look for nodes by mDNS, or use only those that you name.",
        show_default=False,
    ),
]
StrategyOption = Annotated[
    Texts,
    typer.Option(
        "--strategy",
        metavar="[MODEL=]NAME",
        help=f"How a replica is chosen: {', '.join(STRATEGIES)}. With MODEL= for that model only;"
        " may be given several times. Those of models replace those of the settings file.",
    ),
]
EngineOption = Annotated[
    Texts,
    typer.Option(
        "--engine",
        metavar="URL[,key_env=VARIABLE][,key_file=PATH]",
        help="An engine of this machine besides those found on the usual ports (Ollama 11434,"
        " LM Studio 1234, llama.cpp 8080, vLLM 8000, SGLang 30000); may be given several times."
        " An API key is read from a variable or a file, never from here.",
    ),
]
FindOption = Annotated[
    bool | None,
    typer.Option(
        "--find-engines/--no-find-engines",
        help="Look for engines on the usual ports, or use only those that you name.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FILE.gguf",
        help="A model to run in the embedded llama.cpp; needs pair's extra `engine`.",
    ),
]
SlotsOption = Annotated[
    int | None,
    typer.Option(
        "--slots",
        metavar="N",
        help="Requests at a time on each model here, where the engine does not tell.",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="What this node is called. Default: the machine."),
]
NODE_LISTEN_HELP = (
    "Where proxies connect to this node. Default: 127.0.0.1:7248; on another address anyone on"
    " that network can use it."
)
NodeListenOption = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help=NODE_LISTEN_HELP)
]
UpNodeListenOption = Annotated[
    str | None, typer.Option("--node-listen", metavar="HOST:PORT", help=NODE_LISTEN_HELP)
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", metavar="N", help="Threads of the embedded engine.")
]
ContextOption = Annotated[
    int | None,
    typer.Option("--context", metavar="N", help="Tokens of each slot of the embedded engine."),
]
