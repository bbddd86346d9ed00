"""The pytest plugin and its runs: alone, under xdist, killed, interrupted, with an upstream; its texts and its price."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.backstage.child import Child, NoAnswer
from drillmaster.backstage.provider import Provider
from drillmaster.errors import Problem
from tests.e2e.pytestlab import Run, gone, reasons

pytestmark = pytest.mark.e2e
pytest_plugins = ("pytester",)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(pytester, monkeypatch)


# Runs, workers, ends


def test_a_run_that_uses_nothing_of_it_is_what_it_was(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import sys, pathlib
        def pytest_sessionfinish():
            loaded = [name for name in sys.modules if name.startswith("drillmaster")]
            pathlib.Path("loaded").write_text(" ".join(loaded))
        """
    )
    result = run("        def test_nothing(): pass\n")
    result.assert_outcomes(passed=1)
    assert set((pytester.path / "loaded").read_text().split()) == {
        "drillmaster",
        "drillmaster.backstage",
        "drillmaster.backstage.around",
        "drillmaster.pytest_plugin",
    }


def test_a_marker_of_the_same_name_stays_its_owners(run: Run) -> None:
    result = run(
        """
        @pytest.mark.fault
        def test_theirs(request): assert "provider" not in request.fixturenames

        @pytest.mark.fault("503")
        def test_ours(provider): assert ask(provider.url)[0] == 503

        @pytest.mark.fault("503")
        def test_ours_and_met_by_nobody(provider): pass
        """,
        ini="markers =\n    fault: a test of our fault lines\n",
    )
    result.assert_outcomes(passed=2, failed=1)
    assert "nobody met" in reasons(result)


def test_each_worker_of_xdist_has_a_provider_and_leaves_none(run: Run, pytester: pytest.Pytester) -> None:
    result = run(
        """
        @pytest.mark.parametrize("n", range(12))
        @pytest.mark.fault("503")
        def test_one(provider, worker_id, n):
            assert ask(provider.url)[0] == 503
            provider.assert_attempts(1)
            with open("seen", "a") as seen:
                seen.write(f"{worker_id} {provider.url} {provider._child.pid}\\n")

        def test_fails(provider):
            ask(provider.url)
            assert False
        """,
        "-n",
        "2",
        "--dist",
        "load",
    )
    result.assert_outcomes(passed=12, failed=1)
    result.stdout.fnmatch_lines(["*what the wire saw (drillmaster)*", "1 request reached*"])
    seen = {tuple(line.split()) for line in (pytester.path / "seen").read_text().splitlines()}
    assert len(seen) == 2 and {worker for worker, _, _ in seen} == {"gw0", "gw1"}
    assert all(gone(int(pid)) for _, _, pid in seen)


HANGING = """
import os, pathlib, time

def test_hangs(provider):
    if os.environ.get("FORK") and os.fork() == 0:
        time.sleep(20)  # it has inherited the pipe
        os._exit(0)
    with provider.fault("hang"):
        pathlib.Path("pid.new").write_text(str(provider._child.pid))
        os.rename("pid.new", "pid")
        time.sleep(60)
"""


@contextlib.contextmanager
def hanging(folder: Path, **environ: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A run whose one test sleeps with a fault on; its process, and the provider's."""
    (folder / "test_hangs.py").write_text(HANGING)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), "test_hangs.py"]
    environ = {**{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}, **environ}
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        for _ in range(1_500):
            if (folder / "pid").exists():
                break
            time.sleep(0.02)
        yield process, int((folder / "pid").read_text())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("fork", ["", "1"])
def test_a_killed_run_takes_its_provider_along(tmp_path: Path, fork: str) -> None:
    with hanging(tmp_path, FORK=fork) as (process, pid):
        assert not gone(pid, 0.1)
        process.kill()
        assert gone(pid)


def test_an_interrupted_run_ends_in_order(tmp_path: Path) -> None:
    with hanging(tmp_path) as (process, pid):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the provider too
        assert process.wait(20) == pytest.ExitCode.INTERRUPTED
        assert gone(pid)
        assert process.stdout is not None
        said = process.stdout.read()
        assert "KeyboardInterrupt" in said and "NoAnswer" not in said


def test_a_provider_that_dies_fails_the_tests_that_wanted_it(run: Run) -> None:
    result = run(
        """
        import signal
        def test_kills(provider):
            os.kill(provider._child.pid, signal.SIGKILL)
            time.sleep(0.2)
            provider.attempts
        def test_next(provider): pass
        def test_other(): pass
        """
    )
    result.assert_outcomes(passed=1, failed=1, errors=2)
    assert "the provider's process ended with -9" in reasons(result)


AGENT = Path(__file__).resolve().parent / "agents" / "fetch_agent.mjs"


@pytest.mark.needs("node")
def test_an_agent_in_node_that_is_started_once_meets_faults_test_by_test(run: Run) -> None:
    result = run(
        f"""
        import contextlib, subprocess, urllib.request

        @pytest.fixture(scope="session")
        def agent(provider_url):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            process = subprocess.Popen(
                ["node", {str(AGENT)!r}], env={{**os.environ, "MODEL_BASE_URL": provider_url, "PORT": str(port)}}
            )
            for _ in range(500):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                time.sleep(0.02)
            yield f"http://127.0.0.1:{{port}}/?q=order"
            process.kill()
            process.wait()

        def said(agent):
            with urllib.request.urlopen(agent, timeout=5) as answer:
                return answer.read().decode()

        def test_primary(agent, provider):
            provider.answers("On its way.")
            assert said(agent) == "On its way."
            provider.assert_attempts(1)

        @pytest.mark.fault("reset")
        def test_fallback(agent, provider):
            assert "write to you today" in said(agent)
            provider.assert_met()

        def test_and_back(agent, provider):
            assert "write to you today" not in said(agent)
        """
    )
    assert result.ret == 0, reasons(result)


# An upstream of the user's


def test_an_upstream_on_loopback_stands_in_for_the_stand_in(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    behind = Child()
    try:
        Provider(behind).answers("from behind")
        result = run(
            """
            def test_upstream(provider):
                assert b"from behind" in ask(provider.url)[1]
                assert provider.mistral_url == provider.url and provider.openai_url == provider.url + "/v1"
                with provider.fault("503"):
                    assert ask(provider.url)[0] == 503
                assert provider.attempts[0].dialect == "mistral"
                with pytest.raises(Exception, match="an upstream of your own"):
                    provider.answers("mine")

            def test_keys_stay(provider_env):
                assert os.environ["OPENAI_API_KEY"] == "mine" and os.environ["GROQ_API_KEY"] == "sk-standin-0000"
            """,
            "--drillmaster-upstream",
            f"{behind.url}/v1",
            ini="drillmaster_dialect = mistral\n",
        )
        assert result.ret == 0, reasons(result)
    finally:
        behind.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1.example.com", "found 127.0.0.1.example.com, which is not loopback"),
        ("http://127.example.com", "found 127.example.com, which is not loopback"),
        ("http://[", "found Invalid IPv6 URL, wanted a URL"),
        ("127.0.0.1:80", "found no host"),
        ("http://none", "found none, which is not loopback"),  # what is not said is not "None"
        ("http://127.999.0.1", "found 127.999.0.1, which is not loopback"),  # a name, whatever it looks like
        ("http://127.1", "found 127.1, which is not loopback"),
    ],
)
def test_what_is_not_loopback_is_not_taken_for_it(run: Run, url: str, said: str) -> None:
    result = run("        def test_nothing(): pass\n", "--drillmaster-upstream", url)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in reasons(result)


def test_the_stand_in_can_be_told_whose_api_it_is(run: Run) -> None:
    result = run(
        """
        def test_words(provider):
            with provider.fault("status", status=422):
                failed = json.loads(ask(provider.url)[1])
            assert "object" in failed or "detail" in failed  # as that API words it
            assert ask(provider.url)[0] == 200
            assert [one.dialect for one in provider.attempts] == ["mistral"] * 2
        """,
        ini="drillmaster_dialect = mistral\n",
    )
    assert result.ret == 0, reasons(result)


def test_a_host_beyond_loopback_is_said_twice(run: Run) -> None:
    ini = "drillmaster_upstream = https://api.example.com/v1\n"
    result = run("        def test_nothing(): pass\n", ini=ini)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "found api.example.com, which is not loopback" in reasons(result)
    assert "--drillmaster-allow-host api.example.com" in reasons(result)
    said = run("        def test_nothing(): pass\n", "--drillmaster-allow-host", "api.example.com", ini=ini)
    said.assert_outcomes(passed=1)


def test_an_upstream_that_is_none_is_told(run: Run) -> None:
    result = run(
        "        def test_nothing(provider): pass\n", "--drillmaster-upstream", "ftp://127.0.0.1/", "--tb=short"
    )
    result.assert_outcomes(errors=1)
    assert "drillmaster_upstream: found" in reasons(result)
    assert "wanted an http or https URL with a host" in reasons(result)


# Texts, and the price


def test_markers_and_fixtures_explain_themselves(run: Run) -> None:
    markers = reasons(run("", "--markers"))
    assert '@pytest.mark.fault("stall", after_events=3' in markers and "fails where nobody met it" in markers
    fixtures = reasons(run("", "--fixtures", "-v"))
    for said in (
        "provider_env",
        "provider_url [session scope]",
        "OpenAI(base_url=provider.openai_url",
        "may_miss=True",
    ):
        assert said in fixtures


def test_a_test_pays_little_for_its_provider() -> None:
    """Begin and end; the quicker half counts, since the machine has other things to do."""
    child = Child()
    try:
        took = []
        for _ in range(60):
            began = time.perf_counter()
            one = Provider(child)
            one.close()
            took.append(time.perf_counter() - began)
        assert sorted(took)[30] < 0.015, sorted(took)
    finally:
        child.close()


def test_orders_to_a_dead_or_foreign_process_are_refused() -> None:
    child = Child()
    child.close()
    with pytest.raises((NoAnswer, ValueError)):
        child.ask("begin")
    with pytest.raises(Problem, match="wanted auto or one of"):
        Child(dialect="nosuch")


def test_an_order_that_was_interrupted_half_written_spoils_no_other() -> None:
    child = Child()

    class TimeIsOver(Exception):
        pass

    def raise_it(number: int, frame: object) -> None:
        raise TimeIsOver

    before = signal.signal(signal.SIGALRM, raise_it)
    os.kill(child.pid, signal.SIGSTOP)  # it reads nothing, so that the pipe fills
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(TimeIsOver):
            child.ask("answers", model="*", lines=[{"text": "a" * 1_000_000}])
        os.kill(child.pid, signal.SIGCONT)
        assert "rows" in child.ask("rows", since=0)
        assert child.ask("answers", model="*", lines=[]) == {}
    finally:
        signal.signal(signal.SIGALRM, before)
        os.kill(child.pid, signal.SIGCONT)
        child.close()


def test_a_run_with_many_open_files_has_its_provider() -> None:
    """Descriptors beyond 1,023, which `select` cannot watch."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_200:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_200), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_050)]
    try:
        child = Child()
        assert child.ask("rows", since=0)["rows"] == []
        child.close()
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_interrupted_order_does_not_answer_the_next() -> None:
    child = Child()
    try:
        child._write(json.dumps({"id": 0, "do": "begin"}).encode() + b"\n")  # asked, and never waited for
        assert "rows" in child.ask("rows", since=0)
    finally:
        child.close()
