from __future__ import annotations

import io

from rich.console import Console

from pair.terminal.live import LiveView, picture
from tests.terminal.samples import job, model, node, replica, snapshot, text_of


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=160, force_terminal=terminal, color_system=None)


def shown(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def test_without_a_terminal_a_line_a_change_and_no_escape_codes() -> None:
    on = console(terminal=False)
    with LiveView(on) as view:
        view.show(snapshot(node("attic", replica())))
        view.show(snapshot(node("attic", replica()), uptime_s=13.0))
        view.show(snapshot(node("attic", replica(in_flight=0)), in_flight=0, uptime_s=14.0))
        view.show(snapshot(node("attic", phase="lost"), in_flight=0), note="the second\x1b[2J run")
    assert shown(on).splitlines() == [
        "12.0 s · 1 of 1 node ready · 1 in flight (attic 1) · 0 waiting · 8 answered",
        "14.0 s · 1 of 1 node ready · 0 in flight · 0 waiting · 8 answered",
        "12.0 s · the second�[2J run · 0 of 1 node ready · 0 in flight · 0 waiting · 8 answered",
    ]


def test_on_a_terminal_the_same_place_is_drawn_again() -> None:
    on = console(terminal=True)
    jobs = [job(id=f"team-{number}") for number in range(7)]
    with LiveView(on) as view:
        view.show(snapshot(node("attic", replica()), models=[model()]), jobs=jobs, note="run 1")
        before = shown(on)
        view.show(snapshot(node("attic", replica())))
    assert "attic" in before
    assert "run 1" in before
    assert "team-6" in before
    assert "team-1 " not in before  # only the latest
    assert "\x1b[1A" in shown(on).removeprefix(before)  # back up, to draw over the old
    assert shown(on).endswith("\x1b[?25h")  # the cursor is given back


def test_lost_nodes_leave_the_others_in_sight_on_a_small_terminal() -> None:
    why = "missed 41 probes: nothing listens at 192.168.1.20:7248, no route to that machine"
    lost = [node(f"off-{number}", phase="lost", reason=why) for number in range(5)]
    text = text_of(picture(snapshot(*lost, node("attic", replica())), [], ""), width=80)
    *_, first, second, attic, folded = text.splitlines()
    assert [line.split()[0] for line in (first, second, attic)] == ["off-0", "off-1", "attic"]
    assert first.rstrip().endswith("…")
    assert folded.strip() == "and 3 lost nodes"
    assert "lost node" not in text_of(picture(snapshot(*lost[:2]), [], ""))


def test_the_terminal_is_given_back_after_an_error() -> None:
    on = console(terminal=True)
    try:
        with LiveView(on) as view:
            view.show(snapshot())
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert shown(on).endswith("\x1b[?25h")
