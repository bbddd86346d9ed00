"""What every test stands on: a clean environment, programs that may be missing, skips that are counted."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")
IN_CI = os.environ.get("CI", "") not in ("", "0", "false")

# What a person may have set in the shell that runs the tests, and what the product would take from there.
OUTSIDE = (
    "DRILL_LOG",
    "MODEL_BASE_URL",
    "OPENAI_BASE_URL",
    "ANTHROPIC_BASE_URL",
    "NO_COLOR",
    "FORCE_COLOR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
)

# Shared machines stall: a slow example is no finding. CI draws the same examples each time, a person's machine others.
settings.register_profile(
    "house",
    deadline=None,
    derandomize=IN_CI,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")

_state = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Give the run, or each worker of it, and its child processes a state folder of their own: one live drill each."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell gives what it starts behind `&` a Ctrl-C that does nothing, and each child would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_state] = tempfile.mkdtemp(prefix="drillmaster-tests-")
    os.environ["DRILLMASTER_STATE"] = config.stash[_state]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave `tests/e2e` alone where none of it is to run: what its modules import comes with an extra of its own."""
    return (config.option.markexpr == "not e2e" and collection_path == Path(__file__).parent / "e2e") or None


def pytest_unconfigure(config: pytest.Config) -> None:
    if _state in config.stash:
        shutil.rmtree(config.stash[_state], ignore_errors=True)


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, by name, a test whose program is not on this machine."""
    for marker in item.iter_markers("needs"):
        for program in marker.args:
            if not find_program(program):
                pytest.skip(f"needs {program}")


def find_program(program: str) -> str | None:
    """Find a program as a shell would, and where Debian keeps the ones that root runs and PostgreSQL's, the newest first."""
    servers = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *servers]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was skipped, by reason, so that nothing is left out in silence."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")
    if reasons and IN_CI:
        terminalreporter.write_line("CI=true: a skipped test is a failed run; install what it needs", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where CI is true, a run that skipped anything has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if IN_CI and reporter is not None and reporter.stats.get("skipped") and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """Lend a folder whose path is short enough for a Unix socket (about 100 bytes)."""
    with tempfile.TemporaryDirectory(prefix="dm-") as folder:
        yield Path(folder)


@pytest.fixture
def opened() -> Iterator[Callable[[AbstractContextManager[T]], T]]:
    """Open something until the test ends: an SDK's client that nobody closes leaves its sockets to a later test's warnings."""
    with ExitStack() as stack:
        yield stack.enter_context
