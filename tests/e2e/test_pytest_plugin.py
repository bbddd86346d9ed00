"""What an agent's tests do with the pytest plugin: real SDKs and HTTP clients, and what is counted."""

import pytest

from tests.e2e.pytestlab import Run, reasons

pytestmark = pytest.mark.e2e
pytest_plugins = ("pytester",)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(pytester, monkeypatch)


# Clients


def test_real_sdks_and_http_clients_meet_faults_and_leave_evidence(run: Run) -> None:
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


def test_a_fallback_model_is_told_from_the_primary(run: Run) -> None:
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


def test_every_dialect_has_an_address_and_fails_in_its_own_words(run: Run) -> None:
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


# What is counted


def test_threads_that_look_at_the_wire_at_once_count_no_request_twice(run: Run) -> None:
    result = run(
        """
        from concurrent.futures import ThreadPoolExecutor

        def test_threads(provider):
            over = threading.Event()
            def look():
                while not over.is_set(): provider.attempts
            with ThreadPoolExecutor(30) as lanes:
                for _ in range(8): lanes.submit(look)
                with provider.fault("503", first=40) as window:
                    came = list(lanes.map(lambda n: ask(provider.url)[0], range(100)))
                over.set()
            assert came.count(503) == 40 == window.met
            provider.assert_attempts(100)
            assert len({one.id for one in provider.attempts}) == 100
        """
    )
    assert result.ret == 0, reasons(result)


def test_a_request_that_is_not_over_counts_as_one_that_came(run: Run) -> None:
    result = run(
        """
        import contextlib

        @pytest.mark.fault("hang", nth=(2,))
        def test_under_way(provider):
            ask(provider.url, model="a")
            def wait():
                with contextlib.suppress(OSError): ask(provider.url, model="b", within_s=20)
            threading.Thread(target=wait, daemon=True).start()
            while not provider.met: time.sleep(0.01)
            provider.assert_attempts(2)
            provider.assert_attempts(1, model="b", path="/v1/chat/*")
            for wrong in ({"times": 1}, {"at_most": 1}, {"at_most": 0, "model": "b"}, {"times": 3}):
                with pytest.raises(AssertionError, match="1 more are not over"): provider.assert_attempts(**wrong)
            assert len(provider.attempts) == 1
        """
    )
    assert result.ret == 0, reasons(result)


# Tests apart


def test_nothing_of_a_test_reaches_into_the_next(run: Run) -> None:
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
            assert provider.met == 0 and "w1  refused: the port was shut" in provider.wire()

        def test_connections_are_met_before_there_is_a_request(provider):
            with provider.fault("rst-on-accept") as window:
                for _ in range(2):
                    with pytest.raises(OSError): ask(provider.url)
            provider.assert_met(2)
            assert window.met == 2 and "w1  rst-on-accept: met 2" in provider.wire()
            assert provider.attempts == ()
        """
    )
    assert result.ret == 0, reasons(result)


def test_markers_of_class_and_test_come_in_order_and_bring_the_fixture(run: Run) -> None:
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
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "intern")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    result = run(
        """
        import anthropic, groq, ollama, openai
        from google import genai

        def test_env(provider_env, provider):
            assert os.environ["GOOGLE_GENAI_USE_VERTEXAI"] == "false"
            assert openai.OpenAI().api_key == "sk-standin-0000" == provider_env["OPENAI_API_KEY"]
            assert openai.OpenAI().chat.completions.create(model="m", messages=HELLO).choices
            assert anthropic.Anthropic().messages.create(model="m", max_tokens=9, messages=HELLO).content
            assert os.environ["NO_PROXY"] == "intern,127.0.0.1,localhost"
            assert groq.Groq().chat.completions.create(model="m", messages=HELLO).choices
            assert ollama.Client().chat(model="m", messages=HELLO).message.content
            assert genai.Client().models.generate_content(model="m", contents="hello").text
            azure = openai.AzureOpenAI(api_version="2025-03-01-preview")
            assert azure.chat.completions.create(model="m", messages=HELLO).choices
            assert [one.dialect for one in provider.attempts] == [
                "openai_chat", "anthropic", "groq", "ollama", "gemini", "azure_openai",
            ]

        def test_gone_again():
            assert "OPENAI_BASE_URL" not in os.environ and os.environ["OPENAI_API_KEY"] == "real"
        """
    )
    assert result.ret == 0, reasons(result)


def test_frozen_clocks_and_async_tests_are_no_trouble(run: Run) -> None:
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


def test_pytest_asyncio_is_no_trouble(run: Run) -> None:
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
