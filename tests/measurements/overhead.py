"""What the proxy costs: latency and requests/s against direct and against nginx, side by side in
one run.

Not a test: it judges nothing. An nginx that answers at once plays the engine; wrk sends small chat
requests to it directly, through a second nginx, and through `pair serve`, in turn, several rounds.
The proxy under test has one core to itself, wrk and the engine share the other. Needs nginx and
wrk.

Run: `make measure-overhead`, or `python tests/measurements/overhead.py [--rounds 5] [--seconds 4]
[--json]`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

CONNECTIONS = (1, 16, 64)
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "fixed",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "x" * 600},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 150, "total_tokens": 160},
    }
)
LIST = json.dumps(
    {"object": "list", "data": [{"id": "fixed", "object": "model", "created": 0, "owned_by": "x"}]}
)
REQUEST = json.dumps({"model": "fixed", "messages": [{"role": "user", "content": "y" * 1500}]})

NGINX = """
daemon off;
pid {folder}/pid;
error_log stderr crit;
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u;
  scgi_temp_path {folder}/s;
  keepalive_requests 100000000;
  client_body_buffer_size 64k;
  {body}
}}
"""
ENGINE = """
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    default_type application/json;
    location = /v1/models {{ return 200 '{models}'; }}
    location = /v1/chat/completions {{ return 200 '{answer}'; }}
    location / {{ return 404 '{{}}'; }}
  }}
"""
MIDDLE = """
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
"""
WRK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{body}'
"""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(core: int, *command: str, env: dict[str, str] | None = None) -> Iterator[None]:
    """A process on one core, ended by its own id."""
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def wait_for(url: str, *, body: str | None = None) -> None:
    """Wait until a POST (or GET) there is answered with 200."""
    deadline = time.monotonic() + 20
    while True:
        request = urllib.request.Request(  # noqa: S310 - a loopback URL made here
            url,
            data=None if body is None else body.encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310
                if answer.status == 200:
                    return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # noqa: TID251 - no loop here to block


def load(core: int, url: str, connections: int, seconds: int, script: Path) -> dict[str, float]:
    """One wrk run: requests/s, and latency quantiles in microseconds."""
    threads = "1"
    output = subprocess.run(
        [
            "taskset",
            "-c",
            str(core),
            "wrk",
            "-t",
            threads,
            "-c",
            str(connections),
            "-d",
            f"{seconds}s",
            "--latency",
            "-s",
            str(script),
            url,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + 30,
    ).stdout
    if "Non-2xx" in output:
        raise SystemExit(f"errors under load at {url}:\n{output}")
    figures = {"requests_per_s": float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])}  # type: ignore[index]
    for quantile in ("50", "99"):
        value, unit = re.search(rf"{quantile}%\s+([\d.]+)(us|ms|s)", output).groups()  # type: ignore[union-attr]
        figures[f"p{quantile}_us"] = float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]
    return figures


def measure(rounds: int, seconds: int) -> dict[str, object]:
    """All arms at all numbers of connections, in turn, `rounds` times."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = {"direct": free_port(), "nginx": free_port(), "pair": free_port()}
        bodies = {
            "direct": ENGINE.format(port=ports["direct"], models=LIST, answer=ANSWER),
            "nginx": MIDDLE.format(port=ports["nginx"], engine=ports["direct"]),
        }
        for name, core in (("direct", 1), ("nginx", 0)):
            own = folder / name
            own.mkdir()
            (own / "nginx.conf").write_text(NGINX.format(folder=own, body=bodies[name]))
            stack.enter_context(
                running(core, "nginx", "-p", str(own), "-c", str(own / "nginx.conf"))
            )
        node = f"http://127.0.0.1:{ports['direct']},slots=256"
        command = [str(Path(sys.executable).with_name("pair")), "serve", "--no-discovery"]
        command += ["--listen", f"127.0.0.1:{ports['pair']}", "--node", node]
        stack.enter_context(running(0, *command, env={"PAIR_HOME": str(folder / "home")}))
        script = folder / "post.lua"
        script.write_text(WRK.format(body=REQUEST))
        urls = {
            name: f"http://127.0.0.1:{port}/v1/chat/completions" for name, port in ports.items()
        }
        for url in urls.values():
            wait_for(url, body=REQUEST)
        raw: dict[str, dict[int, list[dict[str, float]]]] = {
            name: {c: [] for c in CONNECTIONS} for name in urls
        }
        for number in range(rounds):
            for connections in CONNECTIONS:
                order = list(urls)
                for name in order[number % 3 :] + order[: number % 3]:
                    raw[name][connections].append(load(1, urls[name], connections, seconds, script))
                    print(
                        f"round {number + 1}/{rounds} {name:6} {connections:3} connections",
                        file=sys.stderr,
                    )
    return summary(raw)


def summary(raw: dict[str, dict[int, list[dict[str, float]]]]) -> dict[str, object]:
    """Medians with their spread, and the ratios to nginx taken round by round."""
    rows = []
    for connections in CONNECTIONS:
        direct = raw["direct"][connections]
        for name, by_connections in raw.items():
            runs = by_connections[connections]
            rates = [run["requests_per_s"] for run in runs]
            rows.append(
                {
                    "arm": name,
                    "connections": connections,
                    "requests_per_s": [round(f(rates)) for f in (min, median, max)],
                    "p50_us": round(median(run["p50_us"] for run in runs)),
                    "p99_us": round(median(run["p99_us"] for run in runs)),
                    "added_p50_us": round(
                        median(
                            run["p50_us"] - d["p50_us"] for run, d in zip(runs, direct, strict=True)
                        )
                    ),
                    "rate_to_nginx": round(
                        median(
                            run["requests_per_s"] / n["requests_per_s"]
                            for run, n in zip(runs, raw["nginx"][connections], strict=True)
                        ),
                        3,
                    ),
                }
            )
    return {"rows": rows}


def main() -> None:
    """Measure and print a Markdown table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    for tool in ("nginx", "wrk", "taskset"):
        if shutil.which(tool) is None:
            raise SystemExit(f"this measurement needs {tool}")
    result = measure(chosen.rounds, chosen.seconds)
    if chosen.json:
        print(json.dumps(result, indent=1))
        return
    print(
        "| arm | connections | requests/s min / median / max | p50 us | p99 us "
        "| added p50 us | rate / nginx |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in result["rows"]:  # type: ignore[attr-defined]
        low, middle, high = row["requests_per_s"]
        figures = [row[key] for key in ("p50_us", "p99_us", "added_p50_us", "rate_to_nginx")]
        cells = [row["arm"], row["connections"], f"{low} / {middle} / {high}", *figures]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
