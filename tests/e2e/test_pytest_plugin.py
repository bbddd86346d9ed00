"""The pytest plugin in runs of its own: real SDKs and HTTP clients, what fails a test, xdist, async, ends of every kind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.backstage.child import Child, NoAnswer
from drillmaster.backstage.provider import Provider
from drillmaster.errors import Problem

pytestmark = pytest.mark.e2e
pytest_plugins = ("pytester",)

HEAD = """
import http.client, json, os, socket, threading, time
import pytest

HELLO = [{"role": "user", "content": "hello"}]

def ask(url, path="/v1/chat/completions", model="m", within_s=5.0, key="k", **more):
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=within_s)
    try:
        call = {"model": model, "messages": HELLO, **more}
        connection.request("POST", path, json.dumps(call), {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a file of tests in a process of its own; the environment is not the one of this run."""
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]:
        monkeypatch.delenv(name)

    def go(text: str, *argv: str, ini: str = "") -> pytest.RunResult:
        pytester.makepyfile(test_agent=HEAD + textwrap.dedent(text))
        pytester.makeini(f"[pytest]\naddopts = -p no:cacheprovider --strict-markers\n{ini}")
        return pytester.runpytest_subprocess("-rA", *argv, timeout=90)

    return go


def reasons(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


def gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether that process has ended."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


# Clients


def test_real_sdks_and_http_clients_meet_faults_and_leave_evidence(run: Any) -> None:
    result = run(
        """
        import anthropic, httpx, openai, requests
        from drillmaster.dialects import assert_finished

        def test_openai(provider):
            client = openai.OpenAI(base_url=provider.openai_url, api_key="k")
            with provider.fault("503", first=1):
                assert client.chat.completions.create(model="m", messages=HELLO).choices[0].finish_reason == "stop"
            assert [(one.status, one.retry_count, one.faults) for one in provider.attempts] == [
                (503, 0, ("503",)), (200, 1, ()),
            ]
            provider.assert_met(1)

        @pytest.mark.fault("clean-end", after_events=3)
        def test_a_stream_that_ends_early_looks_like_success(provider):
            client = openai.OpenAI(base_url=provider.openai_url, api_key="k")
            events = list(client.chat.completions.create(model="m", messages=HELLO, stream=True))
            with pytest.raises(AssertionError, match="not finished, it is cut"):
                assert_finished(events, "openai_chat")
            (one,) = provider.attempts
            assert (one.status, one.end, one.terminal, one.window, one.stream) == (200, "clean", False, "w1", True)

        def test_anthropic(provider):
            client = anthropic.Anthropic(base_url=provider.anthropic_url, api_key="k", max_retries=0)
            asked = {"model": "m", "max_tokens": 99, "messages": HELLO}
            with provider.fault("overloaded"), pytest.raises(anthropic.APIStatusError) as raised:
                client.messages.create(**asked)
            assert raised.value.status_code == 529
            provider.answers("It is on its way.")
            assert client.messages.create(**asked).content[0].text == "It is on its way."
            assert_finished(list(client.messages.create(**asked, stream=True)), "anthropic")
            assert [one.dialect for one in provider.attempts] == ["anthropic"] * 3

        @pytest.mark.fault("rate-limit", retry_after_s=2)
        def test_requests(provider):
            answer = requests.post(f"{provider.openai_url}/chat/completions", json={"model": "m", "messages": HELLO})
            assert answer.status_code == 429
            assert provider.attempts[0].asked_s == float(answer.headers["retry-after"])

        @pytest.mark.fault("reset-stream", after_events=2)
        def test_httpx(provider):
            with pytest.raises(httpx.TransportError):
                with httpx.stream("POST", f"{provider.url}/v1/chat/completions",
                                  json={"model": "m", "messages": HELLO, "stream": True}) as answer:
                    answer.read()
            assert provider.attempts[0].end == "rst"

        @pytest.mark.fault("stall", after_events=2)
        def test_aiohttp(provider):
            import aiohttp, asyncio

            async def stream():
                limit = aiohttp.ClientTimeout(sock_read=0.3)
                async with aiohttp.ClientSession(timeout=limit) as session:
                    async with session.post(f"{provider.url}/v1/chat/completions",
                                            json={"model": "m", "messages": HELLO, "stream": True}) as answer:
                        await answer.read()
            with pytest.raises(asyncio.TimeoutError):
                asyncio.run(stream())
            assert provider.attempts[0].end == "stall"
        """
    )
    assert result.ret == 0, reasons(result)


def test_a_fallback_model_is_told_from_the_primary(run: Any) -> None:
    result = run(
        """
        import openai

        def agent(client):
            for model in ("large-1", "small-1"):
                try:
                    return client.chat.completions.create(model=model, messages=HELLO).choices[0].message.content
                except openai.APIError:
                    continue

        def test_fallback(provider):
            provider.answers("from the fallback", model="small-*")
            client = openai.OpenAI(base_url=provider.openai_url, api_key="k", max_retries=1)
            with provider.fault("503", when={"model": "large-*"}) as window:
                assert agent(client) == "from the fallback"
            provider.assert_attempts(2, model="large-*")
            provider.assert_attempts(1, model="small-*", path="/v1/chat/*")
            provider.assert_attempts(at_most=3)
            assert window.met == 2 and [one.model for one in window.attempts] == ["large-1"] * 2
            assert window.attempts[0].rules == ("r1",)

        def test_several_rules(provider):
            client = openai.OpenAI(base_url=provider.openai_url, api_key="k", max_retries=0)
            with provider.rules([
                {"mode": "status", "params": {"status": 500}, "when": {"model": "large-*"}},
                {"mode": "quota-spent", "when": {"model": "small-*"}, "name": "broke"},
                {"mode": "refusal", "when": {"model": "none"}, "may_miss": True},
            ]):
                assert agent(client) is None
            assert [one.faults for one in provider.attempts] == [("status",), ("quota-spent",)]
            assert provider.attempts[1].rules == ("broke",)

        def test_a_tool_loop(provider):
            provider.answers({"tools": [{"name": "refund", "arguments": {"order": "A1"}}], "input_tokens": 7}, "Done.")
            client = openai.OpenAI(base_url=provider.openai_url, api_key="k")
            first = client.chat.completions.create(model="m", messages=HELLO)
            assert json.loads(first.choices[0].message.tool_calls[0].function.arguments) == {"order": "A1"}
            assert (first.choices[0].finish_reason, first.usage.prompt_tokens) == ("tool_calls", 7)
            for _ in range(2):
                assert client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content == "Done."
        """
    )
    assert result.ret == 0, reasons(result)


def test_every_dialect_has_an_address_and_fails_in_its_own_words(run: Any) -> None:
    result = run(
        """
        from drillmaster.dialects import names
        from drillmaster.errors import Problem

        CALLS = {
            "azure_openai": "/openai/deployments/d/chat/completions?api-version=1",
            "gemini": "/v1beta/models/g:generateContent",
            "groq": "/openai/v1/chat/completions",
            "mistral": "/v1/chat/completions",
            "ollama": "/api/chat",
            "openai_chat": "/chat/completions",
            "openai_responses": "/responses",
            "openrouter": "/chat/completions",
            "mcp": "",
        }

        @pytest.mark.parametrize("name", [name for name in names() if name in CALLS])
        @pytest.mark.fault("503")
        def test_words(provider, name):
            base = provider.url_for(name)
            assert base == getattr(provider, name + "_url", base)
            more = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if name == "mcp" else {}
            status, body = ask(provider.url, base.removeprefix(provider.url) + CALLS[name], **more)
            assert status == 503
            assert provider.attempts[0].dialect == name
            json.loads(body)

        def test_unknown(provider):
            with pytest.raises(Problem, match="did you mean openrouter"):
                provider.url_for("openruter")
        """
    )
    assert result.ret == 0, reasons(result)


# What fails a test

REFUSED = {
    "test_nobody_came": (
        """@pytest.mark.fault("503")
        def {name}(provider): pass""",
        r"nobody met the fault 503\n.*0 requests came to http://127.0.0.1:\d+: is that the base URL",
    ),
    "test_not_a_stream": (
        """def {name}(provider):
            with provider.fault("stall", after_events=3): ask(provider.url)""",
        r"test_agent.py:\d+: nobody met the fault stall\(after_events=3\)\n[^\n]*1 request came:\n.*"
        r"POST /v1/chat/completions m -> 200, clean.*strikes only answers by a stream",
    ),
    "test_other_model": (
        """def {name}(provider):
            with provider.fault("503", when={{"model": "large"}}): ask(provider.url, model="small")""",
        r"nobody met the fault 503\(when={'model': 'large'}\).*503 as r1: 0 fit its `when`, 0 came in its times",
    ),
    "test_one_rule_of_two": (
        """def {name}(provider):
            with provider.rules([{{"mode": "503", "first": 1}}, {{"mode": "refusal", "when": {{"model": "x"}}}}]):
                ask(provider.url)""",
        r"nobody met the fault refusal\(when={'model': 'x'}\)\n",
    ),
    "test_without_a_with": (
        """def {name}(provider):
            provider.fault("503"); ask(provider.url)""",
        r"the fault 503 was asked for and never switched on; write `with provider.fault",
    ),
    "test_in_a_fixture_that_goes_on": (
        """@pytest.fixture
        def broken(provider):
            with provider.fault("503"): yield
        def {name}(broken): pass""",
        r"nobody met the fault 503\n",
    ),
    "test_nested": (
        """def {name}(provider):
            with provider.fault("503"):
                ask(provider.url)
                with provider.fault("hang"): pass""",
        r"found a fault that is on already, by test_agent.py:\d+, wanted one window at a time.*provider.rules",
    ),
    "test_misspelt": ("""def {name}(provider): provider.fault("stll")""", r"did you mean stall\?"),
    "test_misspelt_word": (
        """def {name}(provider): provider.fault("stall", frist=1)""",
        r"found the word frist, wanted a parameter of stall \(after_events\) or one of every.*did you mean first\?",
    ),
    "test_misspelt_mark": (
        """@pytest.mark.fault("stall", after_evnts=3)
        def {name}(provider): pass""",
        r"{name}: @pytest.mark.fault: found the word after_evnts.*did you mean after_events\?",
    ),
    "test_a_mark_without_a_fault": (
        """@pytest.mark.fault(after_events=3)
        def {name}(provider): pass""",
        r"found 0 arguments without a name, wanted one, the fault",
    ),
    "test_two_meanings": (
        """def {name}(provider): provider.fault("stale-keep-alive", nth=2)""",
        r"found nth, which stale-keep-alive has as a parameter and rules have as a word.*params={'nth': 2}",
    ),
    "test_senseless": (
        """def {name}(provider):
            with provider.fault("503", share=7): pass""",
        r"rules/0/share: found 7.0, wanted 0 < share <= 1",
    ),
    "test_wrong_value": (
        """def {name}(provider): provider.fault("stall", after_events=-1)""",
        r"Expected `int` >= 0",
    ),
    "test_wrong_answer": (
        """def {name}(provider): provider.answers({{"txt": "a"}})""",
        r"provider.answers.*txt",
    ),
    "test_foreign_fixture": (
        """class Test:
            @pytest.fixture
            def provider(self): return 1
            @pytest.mark.fault("503")
            def {name}(self, provider): pass""",
        r"the fixture `provider` of this test is not drillmaster's",
    ),
    "test_assert_met": (
        """def {name}(provider):
            ask(provider.url); provider.assert_met()""",
        r"0 requests met a fault, wanted at least one\n.*1 request reached",
    ),
    "test_assert_attempts": (
        """def {name}(provider):
            ask(provider.url, model="a"); provider.assert_attempts(at_least=2, model="a*")""",
        r"1 request of model a\* reached the wire, wanted 2 or more\n",
    ),
}


def test_what_shows_nothing_fails_and_says_why(run: Any) -> None:
    text = "\n\n".join(f"        {source.format(name=name)}" for name, (source, _) in REFUSED.items())
    result = run(text, "--tb=short")
    result.assert_outcomes(failed=len(REFUSED))
    told = re.split(
        r"^_{3,} (?:Test\.)?(test_\w+) _{3,}$", result.stdout.str().partition("short test summary")[0], flags=re.M
    )
    parts = dict(zip(told[1::2], told[2::2], strict=True))
    for name, (_, said) in REFUSED.items():
        assert re.search(said.replace("{name}", name), parts[name], re.S), (name, parts[name])


def test_a_fault_may_miss_where_the_test_says_so_and_a_failing_test_keeps_its_reason(run: Any) -> None:
    result = run(
        """
        @pytest.mark.fault("503", may_miss=True)
        def test_marked(provider): pass

        def test_within(provider):
            with provider.fault("503", may_miss=True): pass
            with provider.rules([{"mode": "503"}], may_miss=True): pass

        @pytest.mark.fault("503")
        def test_skipped(provider): pytest.skip("not here")

        @pytest.mark.fault("503")
        def test_fails(provider): assert 1 == 2

        def test_fails_within(provider):
            with provider.fault("503"): assert 3 == 4
        """
    )
    result.assert_outcomes(passed=2, skipped=1, failed=2)
    assert "nobody met" not in reasons(result)
    result.stdout.fnmatch_lines(["*what the wire saw*", "w1  503: met 0", "0 requests reached http://127.0.0.1:*"])


def test_a_failure_shows_what_the_wire_saw_without_secrets(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-" + "Ab3dEf6hIj9k" * 3
    monkeypatch.setenv("SECRET", secret)
    result = run(
        """
        SECRET = os.environ["SECRET"]
        def test_fails(provider):
            with provider.fault("rate-limit", retry_after_s=2, first=1):
                ask(provider.url, model=SECRET, key=SECRET)
                ask(provider.url, path="/v1/" + SECRET + "?key=" + SECRET)
            assert not provider.attempts
        """,
        "--tb=short",
        "-vv",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*what the wire saw (drillmaster)*",
            "w1  rate-limit(retry_after_s=2, first=1): met 1",
            "2 requests reached http://127.0.0.1:*:",
            "* POST /v1/chat/completions [[]screened] -> 429, clean, asked to wait * s, met rate-limit (w1), * ms",
            "* POST /v1/[[]screened] * -> 404, clean, * ms",
        ]
    )
    assert secret not in reasons(result)


# Tests apart


def test_nothing_of_a_test_reaches_into_the_next(run: Any) -> None:
    result = run(
        """
        import openai, requests

        @pytest.fixture(scope="module")
        def session():
            with requests.Session() as session: yield session

        def post(session, provider):
            return session.post(f"{provider.openai_url}/chat/completions", json={"model": "m", "messages": HELLO})

        stuck = []

        def test_leaves_a_request_behind(provider, session):
            post(session, provider)
            provider.answers("mine")
            def wait():
                try: stuck.append(ask(provider.url, within_s=20))
                except Exception as error: stuck.append(type(error))
            context = provider.fault("hang")
            context.__enter__()
            thread = threading.Thread(target=wait, daemon=True); thread.start()
            while not context.met: time.sleep(0.01)
            assert provider.in_flight == 1 and "1 more are not over" in provider.wire()

        def test_is_not_bothered(provider, session):
            assert provider.attempts == () and provider.met == 0
            assert b"mine" not in post(session, provider).content
            assert [one.nth for one in provider.attempts] == [1]
            for _ in range(200):
                if stuck: break
                time.sleep(0.01)
            assert stuck and provider.in_flight == 0

        # The key is new to the proxy in each test.
        @pytest.mark.parametrize("time", [1, 2])
        def test_a_key_expires_once_a_test(provider, time):
            with provider.fault("key-expired"):
                assert ask(provider.url, key="a")[0] == 401
                assert ask(provider.url, key="b")[0] == 200

        def test_one_after_the_other(provider):
            for n in (1, 2):
                with provider.fault("503") as window:
                    assert ask(provider.url)[0] == 503
                assert ask(provider.url)[0] == 200
                assert window.id == f"w{n}"
            assert [one.window for one in provider.attempts] == ["w1", None, "w2", None]

        held = []

        def test_keeps_its_provider(provider): held.append(provider)

        def test_cannot_use_the_provider_of_another(provider):
            with pytest.raises(Exception, match="a test that is over"):
                held[0].fault("503")
            assert held[0].attempts == ()

        def test_the_port_opens_again(provider):
            with provider.fault("refused"), pytest.raises(ConnectionRefusedError):
                ask(provider.url)
            assert ask(provider.url)[0] == 200
        """
    )
    assert result.ret == 0, reasons(result)


def test_markers_of_class_and_test_come_in_order_and_bring_the_fixture(run: Any) -> None:
    result = run(
        """
        import unittest

        @pytest.mark.fault("first-byte-delay", delay_ms=5)
        class TestBoth:
            @pytest.mark.fault("status", status=500, when={"model": "a"})
            @pytest.mark.fault("status", status=501)
            def test_order(self, provider):
                assert [ask(provider.url, model=model)[0] for model in "ab"] == [500, 501]
                assert [one.faults for one in provider.attempts] == [("first-byte-delay", "status")] * 2
                assert [one.rules for one in provider.attempts] == [("r1", "r2"), ("r1", "r3")]

        @pytest.mark.fault("503")
        @pytest.mark.usefixtures("provider_env")
        def test_without_an_argument():
            assert ask(os.environ["MODEL_BASE_URL"])[0] == 503

        class TestOld(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _url(self, provider_url): self.url = provider_url

            @pytest.mark.fault("503")
            def test_unittest(self):
                self.assertEqual(ask(self.url)[0], 503)

        # A fault of a marker meets the body, not what fixtures do before and after it.
        @pytest.fixture
        def warm(provider):
            assert ask(provider.url)[0] == 200
            yield
            assert ask(provider.url)[0] == 200

        @pytest.mark.fault("503")
        def test_body(provider, warm): assert ask(provider.url)[0] == 503
        """
    )
    assert result.ret == 0, reasons(result)


# The environment


def test_the_environment_leads_sdks_here_with_dummy_keys_and_past_proxies(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "intern")
    result = run(
        """
        import anthropic, openai

        def test_env(provider_env, provider):
            assert openai.OpenAI().api_key == "sk-standin-0000" == provider_env["OPENAI_API_KEY"]
            assert openai.OpenAI().chat.completions.create(model="m", messages=HELLO).choices
            assert anthropic.Anthropic().messages.create(model="m", max_tokens=9, messages=HELLO).content
            assert os.environ["NO_PROXY"] == "intern,127.0.0.1,localhost"
            provider.assert_attempts(2)

        def test_gone_again():
            assert "OPENAI_BASE_URL" not in os.environ and os.environ["OPENAI_API_KEY"] == "real"
        """
    )
    assert result.ret == 0, reasons(result)


def test_frozen_clocks_and_async_tests_are_no_trouble(run: Any) -> None:
    result = run(
        """
        import anyio, httpx

        def test_frozen(provider, monkeypatch):
            for name in ("time", "monotonic", "time_ns", "monotonic_ns", "perf_counter"):
                monkeypatch.setattr(time, name, lambda: 0)
            with provider.fault("503") as window:
                assert ask(provider.url)[0] == 503
            assert window.met == 1

        @pytest.fixture
        def anyio_backend(): return "asyncio"

        @pytest.mark.anyio
        @pytest.mark.fault("503", first=2)
        async def test_async(provider):
            async with httpx.AsyncClient(base_url=provider.openai_url) as client:
                async def one():
                    return (await client.post("/chat/completions", json={"model": "m", "messages": HELLO})).status_code
                found = []
                async with anyio.create_task_group() as group:
                    async def keep(): found.append(await one())
                    for _ in range(4): group.start_soon(keep)
                assert sorted(found) == [200, 200, 503, 503]
            provider.assert_attempts(4)

        @pytest.mark.anyio
        @pytest.mark.fault("503")
        async def test_async_nobody_came(provider): pass
        """
    )
    result.assert_outcomes(passed=2, failed=1)


def test_pytest_asyncio_is_no_trouble(run: Any) -> None:
    result = run(
        """
        import httpx

        async def test_async(provider):
            async with httpx.AsyncClient() as client:
                with provider.fault("503"):
                    answer = await client.post(f"{provider.url}/v1/chat/completions", json={})
            assert answer.status_code == 503
        """,
        ini="asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n",
    )
    assert result.ret == 0, reasons(result)


# Runs, workers, ends


def test_a_run_that_uses_nothing_of_it_is_what_it_was(run: Any, pytester: pytest.Pytester) -> None:
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
    assert set((pytester.path / "loaded").read_text().split()) == {"drillmaster", "drillmaster.pytest_plugin"}


def test_each_worker_of_xdist_has_a_provider_and_leaves_none(run: Any, pytester: pytest.Pytester) -> None:
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


def test_a_provider_that_dies_fails_the_tests_that_wanted_it(run: Any) -> None:
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


# An upstream of the user's


def test_an_upstream_on_loopback_stands_in_for_the_stand_in(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_host_beyond_loopback_is_said_twice(run: Any) -> None:
    ini = "drillmaster_upstream = https://api.example.com/v1\n"
    result = run("        def test_nothing(): pass\n", ini=ini)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "found api.example.com, which is not loopback" in reasons(result)
    assert "--drillmaster-allow-host api.example.com" in reasons(result)
    said = run("        def test_nothing(): pass\n", "--drillmaster-allow-host", "api.example.com", ini=ini)
    said.assert_outcomes(passed=1)


def test_an_upstream_that_is_none_is_told(run: Any) -> None:
    result = run(
        "        def test_nothing(provider): pass\n", "--drillmaster-upstream", "ftp://127.0.0.1/", "--tb=short"
    )
    result.assert_outcomes(errors=1)
    assert "wanted an http or https URL with a host" in reasons(result)


# Texts, and the price


def test_markers_and_fixtures_explain_themselves(run: Any) -> None:
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
    """Begin and end, with a fault between; the median, since the machine has other things to do."""
    child = Child()
    try:
        took = []
        for _ in range(60):
            began = time.perf_counter()
            one = Provider(child)
            one.close()
            took.append(time.perf_counter() - began)
        assert sorted(took)[30] < 0.015
    finally:
        child.close()


def test_orders_to_a_dead_or_foreign_process_are_refused() -> None:
    child = Child()
    child.close()
    with pytest.raises((NoAnswer, ValueError)):
        child.ask("begin")
    with pytest.raises(Problem, match="wanted auto or one of"):
        Child(dialect="nosuch")


def test_an_interrupted_order_does_not_answer_the_next() -> None:
    child = Child()
    try:
        child._write(json.dumps({"id": 0, "do": "begin"}).encode() + b"\n")  # asked, and never waited for
        assert "rows" in child.ask("rows", since=0)
    finally:
        child.close()
