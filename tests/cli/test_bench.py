from __future__ import annotations

import subprocess
import sys

import pytest

from pair.cli.bench import direct_engines
from pair.errors import SettingsError
from tests.cli.conftest import Pair


def test_an_engines_url_becomes_a_clients_base_url() -> None:
    given = ["attic=http://a:1/", "cellar=http://b:1/v1"]
    assert direct_engines(given) == {"attic": "http://a:1/v1", "cellar": "http://b:1/v1"}


@pytest.mark.parametrize("text", ["http://a:1", "=http://a:1", "attic=", "attic=a:1"])
def test_an_engine_without_name_or_url_is_told(text: str) -> None:
    with pytest.raises(SettingsError, match="--direct takes NAME=URL"):
        direct_engines([text])


def test_without_a_proxy_one_sentence(pair: Pair) -> None:
    run = pair("bench", "--proxy", "http://127.0.0.1:1")
    assert (run.code, run.out) == (1, "")
    assert run.err.startswith("pair: no pair proxy answers at")


def test_no_other_command_pays_for_the_import_of_openai() -> None:
    program = "import sys, pair.cli.main; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
