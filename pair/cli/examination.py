"""Looking at the world as a proxy and a node would, and saying what is there and what is not.

Apart from the command, so that a test can examine a house of its own. Everything is asked, nothing
is changed, and every question has its limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import aiohttp

from pair.cli.addresses import tcp_address, within_machine
from pair.cli.running_proxy import RunningProxy, proxy_url
from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.names import NodeId
from pair.core.reports import NodeReport, ReplicaState
from pair.discovery.browser import Browser, Reach
from pair.discovery.interfaces import read_surroundings
from pair.engines.engine import EngineReport
from pair.engines.finder import EngineFinder, PairItself, recognise
from pair.engines.pair_node import report_of
from pair.engines.question import NO_HEADERS, question_session
from pair.errors import NodeFault, PairError, SettingsError, UnreachableNode
from pair.relay.credentials import Keyed, credential_of
from pair.settings import Settings
from pair.terminal.figures import several
from pair.terminal.panels import ready_words

LISTEN_S: Final = 3.0
"""For mDNS answers; every node of the house should have been heard in this time."""
ANSWER_LIMIT_S: Final = 3.0
"""For each report; who needs longer will also miss probes."""

Verdict = Literal["fine", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `note` is worth knowing, `wrong` keeps something from working."""

    subject: str
    verdict: Verdict
    words: str


async def examine(settings: Settings, reach: Reach, listen_s: float = LISTEN_S) -> list[Finding]:
    """Everything that can be seen from here, in the order in which it is needed."""
    async with question_session(ANSWER_LIMIT_S) as session:
        findings = [network()]
        findings.append(await proxy(settings))
        findings.append(await own_node(session, settings))
        findings += await engines(session, EngineFinder())
        for engine in settings.node.engines:
            findings.append(await with_key(session, engine, f"named engine {engine.url}"))
        for node in settings.nodes:
            findings.append(await with_key(session, node, f"named node {node.url}"))
        if settings.proxy.discovery:
            findings += await announced(session, reach, listen_s)
        else:
            findings.append(Finding("mDNS", "note", "turned off by proxy.discovery"))
    return findings


def network() -> Finding:
    """Whether there is a network on which other machines may be."""
    interfaces = read_surroundings().on_the_lan
    if not interfaces:
        return Finding("network", "note", "none but this machine's own: no other can be found")
    shown = [f"{each.name} {each.addresses[0].ip}" for each in interfaces if each.addresses]
    return Finding("network", "fine", ", ".join(shown))


async def proxy(settings: Settings) -> Finding:
    """Whether a proxy answers where these settings put it."""
    url = proxy_url(settings, None)
    try:
        async with RunningProxy(url) as running:
            snapshot = await running.snapshot()
    except UnreachableNode:
        return Finding("proxy", "note", f"none at {url}; `pair up` or `pair serve` starts one")
    except PairError as fault:
        return Finding("proxy", "wrong", str(fault))
    return Finding("proxy", "fine", f"at {url}, {ready_words(snapshot)}")


async def own_node(session: aiohttp.ClientSession, settings: Settings) -> Finding:
    """Whether this machine's node answers where these settings put it."""
    url = f"http://{within_machine(tcp_address(settings.node.listen))}"
    try:
        report = await report_of(session, url, ANSWER_LIMIT_S)
    except UnreachableNode:
        return Finding("node here", "note", f"none at {url}; `pair up` or `pair node` starts one")
    except NodeFault as fault:
        return Finding("node here", "wrong", str(fault))
    return Finding("node here", "fine", f"at {url}, {models_of(report)}")


async def engines(session: aiohttp.ClientSession, finder: EngineFinder) -> list[Finding]:
    """The engines on the usual ports of this machine."""
    found = await finder.look(session)
    if not found:
        return [Finding("engines", "note", "none on the usual ports; name one with --engine URL")]
    findings = []
    for engine in found:
        try:
            report = await engine.report(session)
        except NodeFault as fault:
            findings.append(Finding(f"engine {engine.name}", "wrong", str(fault)))
            continue
        models = ", ".join(replica.model for replica in report.replicas) or "no model"
        findings.append(Finding(f"engine {engine.name}", "fine", models))
        findings += [Finding(f"engine {engine.name}", "note", text) for text in report.warnings]
    return findings


async def with_key(session: aiohttp.ClientSession, entry: Keyed, subject: str) -> Finding:
    """The same as `named`, asked with the key that the user has named, too."""
    try:
        headers = credential_of(entry) or NO_HEADERS
    except SettingsError as fault:
        return Finding(subject, "wrong", str(fault))
    return await named(session, entry.url, subject, headers)


async def named(
    session: aiohttp.ClientSession,
    url: str,
    subject: str,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Finding:
    """Whether a node or an engine answers at a URL that the user named."""
    try:
        async with asyncio.timeout(2 * ANSWER_LIMIT_S):
            engine = await recognise(session, url, headers=headers)
            said = await engine.report(session)
        return Finding(subject, *_judged(engine.kind, said))
    except PairItself:
        pass
    except TimeoutError:
        return Finding(subject, "wrong", "connects, but does not answer")
    except NodeFault as fault:
        return Finding(subject, "wrong", str(fault))
    try:
        report = await report_of(session, url, ANSWER_LIMIT_S, headers=headers)
        return Finding(subject, "fine", models_of(report))
    except NodeFault as fault:
        return Finding(subject, "wrong", str(fault))


def _judged(kind: str, said: EngineReport) -> tuple[Verdict, str]:
    """What an engine that answers says of itself: whether that keeps it from working, and how."""
    words = [f"an engine of the kind {kind}", *said.warnings]
    states = {replica.state for replica in said.replicas}
    if ReplicaState.NEEDS_KEY in states and not said.warnings:
        words.append("it shows its models but wants an API key; name one with key_env or key_file")
    if len(words) == 1:
        return "fine", words[0]
    return "note" if ReplicaState.READY in states else "wrong", "; ".join(words)


async def announced(session: aiohttp.ClientSession, reach: Reach, listen_s: float) -> list[Finding]:
    """The nodes that announce themselves by mDNS, and whether they can be reached."""
    heard: dict[NodeId, NodeSighted] = {}

    def listener(event: NodeSighted | NodeWithdrawn) -> None:
        if isinstance(event, NodeSighted):
            heard[event.node] = event
        else:
            heard.pop(event.node, None)

    async with Browser(listener, reach):
        await asyncio.sleep(listen_s)
    if not heard:
        return [
            Finding(
                "mDNS",
                "note",
                f"no node was heard in {listen_s:g} s; a node announces itself to the network only"
                " if it listens there (`pair up --node-listen 0.0.0.0:7248`)",
            )
        ]
    return [await reachable(session, sighting) for sighting in heard.values()]


async def reachable(session: aiohttp.ClientSession, sighting: NodeSighted) -> Finding:
    """Whether a node that was heard answers at any of its addresses."""
    subject, faults = f"node {sighting.name}", []
    for url in sighting.addresses:
        try:
            report = await report_of(session, url, ANSWER_LIMIT_S)
        except NodeFault as fault:
            faults.append(str(fault))
            continue
        if report.node == sighting.node:
            return Finding(subject, "fine", f"heard, and answers at {url}, {models_of(report)}")
        faults.append(f"another node answers at {url}")
    return Finding(
        subject, "wrong", f"heard, but {'; '.join(faults)}; does a firewall close its port?"
    )


def models_of(report: NodeReport) -> str:
    """Such as `2 models: tiny, big`."""
    names = list(dict.fromkeys(replica.model for replica in report.replicas))
    return f"{several(len(names), 'model')}: {', '.join(names)}" if names else "no model"
