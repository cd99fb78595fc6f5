from __future__ import annotations

import signal

from pair.cli import exit_codes


def test_a_signals_code_is_what_shells_expect() -> None:
    assert exit_codes.of_signal(signal.SIGINT) == 130
    assert exit_codes.of_signal(signal.SIGTERM) == 143
