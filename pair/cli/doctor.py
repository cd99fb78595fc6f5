"""`pair doctor`: what stands between this machine and a working house, one line each."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from pair.cli import exit_codes
from pair.cli.environment import own_config, own_folders
from pair.cli.event_loop import run
from pair.cli.examination import Finding, examine
from pair.cli.folders import ID_NAME, node_id
from pair.cli.options import ConfigOption, JsonOption
from pair.cli.output import show, show_json
from pair.discovery.browser import Reach
from pair.errors import SettingsError
from pair.settings import Settings
from pair.terminal.panels import findings_table


def doctor(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check settings, ports, engines, mDNS and nodes; exit code 1 if something is wrong."""
    settings, findings = own_findings(config)
    findings += run(examine(settings, Reach.NETWORK))
    rows = [asdict(finding) for finding in findings]
    if as_json:
        show_json(rows)
    else:
        show(findings_table(rows))
    broken = any(finding.verdict == "wrong" for finding in findings)
    raise typer.Exit(exit_codes.FAILED if broken else exit_codes.OK)


def own_findings(file: Path | None) -> tuple[Settings, list[Finding]]:
    """The settings to go on with (the defaults where they are wrong), and what is to say of them
    and of this machine's id.
    """
    settings, findings = Settings(), []
    try:
        config = own_config({}, file)
    except SettingsError as fault:
        findings += [Finding("settings", "wrong", line) for line in str(fault).splitlines()]
    else:
        settings = config.settings
        there = "" if config.file.exists() else " (not there, all defaults)"
        findings.append(Finding("settings", "fine", f"{config.file}{there}"))
        findings += [Finding("settings", "note", words) for words in config.warnings]
    state = own_folders().state
    if not (state / ID_NAME).exists():
        findings.append(Finding("this machine", "note", "no id yet; the first start draws one"))
        return settings, findings
    try:
        findings.append(Finding("this machine", "fine", f"id {node_id(state)}"))
    except SettingsError as fault:
        findings.append(Finding("this machine", "wrong", str(fault)))
    return settings, findings
