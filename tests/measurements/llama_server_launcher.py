"""Stands in the place of `llama-server` for llama.cpp's own tests: started with its arguments, it
runs the real one, with another model and perhaps with `pair` in front. See `llama_server_tests`.

Apart from it because it runs once for every start of a server, in a process of its own, and must
start at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

NO_MODEL = 97
"""Exit code where the tests want a model that the given one cannot replace."""

KEY_VARIABLE = "LLAMA_SERVER_KEY"
"""Where `pair` finds the engine's key, if it wants one."""

REPLACEABLE = (
    "ggml-org/test-model-stories260K",
    "ggml-org/test-model-stories260K-infill",
    "ggml-org/stories15M_MOE",
)
"""Tiny models that write stories; any small one that writes may stand in their place."""

LOCAL_PAGES_ONLY = {"--tools", "--mcp-servers-config", "--mcp-servers-json"}
"""With these, pages of this machine alone may come by default; without them, all."""

STOP_LIMIT_S = 3.0
"""The tests kill what does not stop within 5 s, and leave its children behind."""


def real_arguments(arguments: Sequence[str], model: Path) -> tuple[list[str], str]:
    """The arguments with the given model, and the name of the model that is missing, "" if none."""
    kept: list[str] = []
    wanted = {"--hf-repo": "", "--hf-file": "", "--hf-repo-draft": "", "--model-url": ""}
    rest = iter(arguments)
    for word in rest:
        if word in wanted:
            wanted[word] = next(rest)
        else:
            kept.append(word)
    missing = next(
        (wanted[name] for name in ("--hf-repo-draft", "--model-url") if wanted[name]), ""
    )
    repo = wanted["--hf-repo"]
    if repo in REPLACEABLE and not missing:
        return ["--model", str(model), *kept], ""
    if repo:
        return kept, missing or "/".join(filter(None, (repo, wanted["--hf-file"])))
    return kept, missing


def named(arguments: Sequence[str], names: Sequence[str]) -> list[str]:
    """The arguments with further names for the model."""
    words = list(arguments)
    if names and "--alias" in words:
        words[words.index("--alias") + 1] += "".join(f",{name}" for name in names)
    return words


def moved(arguments: Sequence[str], port: int) -> tuple[list[str], list[str]]:
    """The arguments for the real server on another port, and the addresses where it was wanted."""
    words = list(arguments)
    place = words.index("--port") + 1
    wanted_port, words[place] = words[place], str(port)
    place = words.index("--host") + 1
    addresses, words[place] = words[place].split(","), "127.0.0.1"
    shown = [f"[{each}]" if ":" in each else each for each in addresses]
    return words, [f"{each}:{wanted_port}" for each in shown]


def page_origins(arguments: Sequence[str]) -> str:
    """The web pages that the real server would let in, as a value of `proxy.cors_origins`."""
    if "--cors-origins" in arguments:
        told = arguments[arguments.index("--cors-origins") + 1]
        return "loopback" if told == "localhost" else told
    return "loopback" if LOCAL_PAGES_ONLY & set(arguments) else "*"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_both(real: Path, arguments: Sequence[str]) -> int:
    """The real server and `pair serve` before it, until one ends or we are told to."""
    port = free_port()
    words, listen = moved(arguments, port)
    command = [str(Path(sys.executable).with_name("pair")), "serve", "--no-discovery"]
    key = arguments[arguments.index("--api-key") + 1] if "--api-key" in arguments else ""
    command += ["--node", f"http://127.0.0.1:{port}" + (f",key_env={KEY_VARIABLE}" if key else "")]
    command += [word for address in listen for word in ("--listen", address)]
    # A port that Google's platform would set; llama-server takes it before the one it is given.
    engine = {
        **os.environ,
        **({"AIP_HTTP_PORT": str(port)} if "AIP_HTTP_PORT" in os.environ else {}),
    }
    proxy = {
        **os.environ,
        "PAIR_PROXY_DRAIN_S": "0.5",
        "PAIR_PROXY_CORS_ORIGINS": page_origins(arguments),
        KEY_VARIABLE: key,
    }
    children = [
        subprocess.Popen([str(real), *words], env=engine),
        subprocess.Popen(command, env=proxy),
    ]
    over = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: over.set())

    def watch(child: subprocess.Popen[bytes]) -> None:
        child.wait()
        over.set()

    for child in children:
        threading.Thread(target=watch, args=(child,), daemon=True).start()
    over.wait()
    ended = next((child.returncode for child in children if child.poll() is not None), 0)
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return ended


def main() -> int:
    """Run what was asked for; the exit code is the real server's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--missing", type=Path, required=True, help="gets a line for each")
    parser.add_argument("--also-known-as", action="append", default=[])
    parser.add_argument("--pair", action="store_true")
    parser.add_argument("arguments", nargs="*")
    chosen = parser.parse_args()
    arguments, missing = real_arguments(chosen.arguments, chosen.model)
    if missing:
        test = os.environ.get("PYTEST_CURRENT_TEST", "?").rpartition(" ")[0]
        with chosen.missing.open("a") as lines:
            lines.write(f"{test}\t{missing}\n")
        return NO_MODEL
    arguments = named(arguments, chosen.also_known_as)
    if not chosen.pair:
        os.execv(chosen.real, [str(chosen.real), *arguments])  # noqa: S606 - is what runs from here on
    return run_both(chosen.real, arguments)


if __name__ == "__main__":
    sys.exit(main())
