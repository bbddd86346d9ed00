"""The real SDKs of OpenAI and Anthropic with the retry guard inside, under every fault of the catalogue, through the real proxy.

What is held: as many attempts on the wire as the guard allowed, each behind an answer that its pinned map has, none earlier than
that answer asked for, and no second one of what has no key.
"""

import asyncio
import contextlib
import itertools
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

import anthropic
import openai

import drillmaster
from drillmaster import faults
from drillmaster.adapters.worker.retry import Refused, Retries, outcome_of
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.adapters.worker.retry_sdks import check_retries_off, guarded
from drillmaster.errors import Problem
from drillmaster.guards.retry import Retry
from drillmaster.matrix.cells import choose
from drillmaster.plan import Matrix
from drillmaster.rules.retryable import retryable
from drillmaster.stores.one_process import OneProcess
from tests.e2e.retrylab import Api, api
from tests.e2e.test_stream_agents import litellm_python
from tests.e2e.wirelab import ProxyProcess, proxy, standin

pytestmark = pytest.mark.e2e

LIMITS = Retry(max_calls=3, deadline_ms=10_000, base_ms=4, cap_ms=2_500, budget_tokens=100, refund=0.1)
MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]
KEY = {"Idempotency-Key": "refund-9f3c"}
DIALECTS = {"openai": "openai_chat", "anthropic": "anthropic"}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with standin() as upstream, proxy(tmp_path_factory.mktemp("retry"), upstream=upstream) as one:
        yield one


@pytest.fixture(scope="module")
def server() -> Iterator[Api]:
    with api() as one:
        yield one


def ask_openai(retries: Retries, url: str, *, stream: bool, headers: dict[str, str]) -> None:
    with guarded(openai.OpenAI, retries, base_url=f"{url}/v1", api_key="sk-test-0123456789", timeout=0.5) as client:
        answer = client.chat.completions.create(model="m", messages=MESSAGES, stream=stream, extra_headers=headers)
        if stream:
            list(answer)


def ask_anthropic(retries: Retries, url: str, *, stream: bool, headers: dict[str, str]) -> None:
    with guarded(anthropic.Anthropic, retries, base_url=url, api_key="sk-test-0123456789", timeout=0.5) as client:
        answer = client.messages.create(
            model="m", max_tokens=5, messages=MESSAGES, stream=stream, extra_headers=headers
        )
        if stream:
            list(answer)


async def _ask_async(retries: Retries, url: str, stream: bool, headers: dict[str, str]) -> None:
    async with guarded(
        openai.AsyncOpenAI, retries, base_url=f"{url}/v1", api_key="sk-test-0123456789", timeout=0.5
    ) as client:
        answer = await client.chat.completions.create(
            model="m", messages=MESSAGES, stream=stream, extra_headers=headers
        )
        if stream:
            async for _ in answer:
                pass


def ask_openai_async(retries: Retries, url: str, *, stream: bool, headers: dict[str, str]) -> None:
    asyncio.run(_ask_async(retries, url, stream, headers))


SDKS = {"openai": ask_openai, "anthropic": ask_anthropic, "openai-async": ask_openai_async}
windows = iter(range(1_000_000))


def asked(
    ours: ProxyProcess, sdk: str, *, stream: bool, headers: dict[str, str], patience_s: float = 6
) -> tuple[Retries, list[dict[str, Any]], str]:
    """One call of an SDK: its retries, the proxy's rows of it, and what came of it."""
    before = len(ours.rows("attempt"))
    retries, told = Retries(LIMITS, OneProcess()), "ok"
    done = threading.Event()

    def run() -> None:
        nonlocal told
        try:
            SDKS[sdk](retries, ours.url, stream=stream, headers=headers)
        except Exception as error:
            told = type(error).__name__
        done.set()

    threading.Thread(target=run, daemon=True).start()
    done.wait(patience_s)  # what drips is not waited for
    if not done.is_set():
        told = "drips"
    else:
        ours.until(lambda state: state["counts"]["in_flight"] == 0)
    return retries, ours.rows("attempt")[before:], told


REDIRECTS = (301, 302, 303, 307, 308)


def hold(requests: int, retries: int, counts: dict[str, int], rows: list[dict[str, Any]], *, keyed: bool) -> None:
    """What the worker counted against what the proxy saw."""
    hops = sum(row["status"] in REDIRECTS for row in rows)  # each is a call of its own
    assert len(rows) <= requests + retries <= LIMITS.max_calls + hops  # a refused connection is no attempt to the proxy
    assert retries == counts.get("pinned-status", 0)
    assert requests == 1 + hops
    assert keyed or not retries
    for row, following in itertools.pairwise(rows):
        if row["status"] in REDIRECTS:
            continue
        assert retryable("http", row["status"]) is not None, row
        if row.get("asked_s") is not None and row["asked_by"] != "body":
            assert (following["start_ns"] - row["first_ns"]) / 1e9 >= row["asked_s"], (row, following)


DRIPS = ("body-drip", "header-drip", "slow-tokens", "throttle", "slow-close", "ping-stall")
EVERY = choose(Matrix(), everything=True)


@pytest.mark.parametrize("sdk", list(SDKS))
@pytest.mark.parametrize("fault", EVERY, ids=lambda one: one.tag)
def test_no_retry_that_the_policy_forbids_and_none_too_early(ours: ProxyProcess, fault: Any, sdk: str) -> None:
    assert len(EVERY) == len(faults.names())
    for stream in (False, True):
        for keyed in (True, False):
            window = f"w{next(windows)}"
            try:
                ours.inject(fault.tag, window, **fault.params)
            except Problem as problem:  # what strikes another API alone has its own tests
                pytest.skip(str(problem))
            try:
                retries, rows, told = asked(
                    ours,
                    sdk,
                    stream=stream,
                    headers=KEY if keyed else {},
                    patience_s=1.5 if fault.tag in DRIPS else 6,
                )
                hold(retries.ledger.requests, retries.ledger.retries, retries.ledger.counts(), rows, keyed=keyed)
                if told == "drips":
                    break
            finally:
                ours.lift(window)


@pytest.mark.parametrize("sdk", list(SDKS))
@pytest.mark.parametrize(
    ("params", "calls", "reason"),
    [
        ({"retry_after_s": 1, "form": "seconds"}, 3, "budget-exhausted"),
        ({"retry_after_s": 0.3, "form": "ms"}, 3, "budget-exhausted"),
        ({"retry_after_s": 1, "form": "date"}, 3, "budget-exhausted"),
        ({"retry_after_s": 3, "form": "seconds"}, 1, "retry-after-over-cap"),
        ({"retry_after_s": 3600, "form": "seconds"}, 1, "retry-after-over-cap"),
        ({"retry_after_s": 3600, "form": "date"}, 1, "retry-after-over-cap"),
        ({"retry_after_s": 277_403, "form": "ms"}, 1, "retry-after-over-cap"),
        # Prose in a body is not read: a wait that is said there alone is not known.
        ({"retry_after_s": 3600, "form": "body"}, 3, "budget-exhausted"),
        ({"form": "none"}, 3, "budget-exhausted"),
    ],
    ids=str,
)
def test_waits_are_kept_or_refused_and_never_cut(
    ours: ProxyProcess, sdk: str, params: dict[str, Any], calls: int, reason: str
) -> None:
    window = f"w{next(windows)}"
    ours.inject("rate-limit", window, **params)
    retries, rows, told = asked(ours, sdk, stream=False, headers=KEY)
    ours.lift(window)
    hold(retries.ledger.requests, retries.ledger.retries, retries.ledger.counts(), rows, keyed=True)
    assert (told, len(rows)) == ("RateLimitError", calls)
    assert retries.ledger.counts()[reason] == 1


@pytest.mark.parametrize("sdk", list(SDKS))
def test_a_fault_that_is_lifted_heals_by_the_retry(server: Api, sdk: str) -> None:
    server.plan((503, {}, None), (429, {"retry-after-ms": "50"}, None))
    retries = Retries(LIMITS, OneProcess())
    SDKS[sdk](retries, server.url, stream=False, headers=KEY)
    assert len(server.sent) == 3 and len({one.body for one in server.sent}) == 1
    assert [one.fields["idempotency-key"] for one in server.sent] == ["refund-9f3c"] * 3
    assert retries.ledger.counts()["pinned-status"] == 2


def test_an_sdks_error_tells_what_the_guard_said(server: Api) -> None:
    server.plan((429, {"retry-after": "3600"}, None))
    with pytest.raises(openai.RateLimitError) as caught:
        ask_openai(Retries(LIMITS, OneProcess()), server.url, stream=False, headers=KEY)
    outcome = outcome_of(caught.value)
    assert outcome is not None and outcome.decision.reason == "retry-after-over-cap"
    assert outcome.decision.wait_ms == 3_600_000


@pytest.mark.parametrize(("dialect", "least_s"), [("gemini", 1.0), ("none", 0.0)])
def test_geminis_wait_is_read_from_the_body_where_the_dialect_is_pinned(
    ours: ProxyProcess, dialect: Any, least_s: float
) -> None:
    genai = pytest.importorskip("google.genai")
    httpx = pytest.importorskip("httpx")
    retries = Retries(msgspec.structs.replace(LIMITS, dialect=dialect, max_calls=2), OneProcess())
    client = httpx.Client(transport=retrying(httpx.HTTPTransport(), retries), timeout=5)
    types = genai.types
    options = types.HttpOptions(base_url=ours.url, httpx_client=client, headers=KEY)
    window, before = f"w{next(windows)}", len(ours.rows("attempt"))
    ours.inject("rate-limit", window, retry_after_s=1, form="own")
    with client, pytest.raises(genai.errors.ClientError):
        genai.Client(api_key="k", http_options=options).models.generate_content(model="m", contents="hello")
    ours.until(lambda state: state["counts"]["in_flight"] == 0)
    ours.lift(window)
    first, second = ours.rows("attempt")[before:]
    assert (first["asked_by"], first["dialect"]) == ("body", "gemini")
    gap_s = (second["start_ns"] - first["first_ns"]) / 1e9
    assert least_s <= gap_s < least_s + 0.9


@pytest.mark.parametrize("client", [openai.OpenAI, openai.AsyncOpenAI, anthropic.Anthropic, anthropic.AsyncAnthropic])
def test_a_client_that_retries_by_itself_is_refused(client: type[Any]) -> None:
    retries = Retries(LIMITS, OneProcess())
    with pytest.raises(Problem, match="max_retries 2"):
        guarded(client, retries, api_key="k", max_retries=2)
    with pytest.raises(Problem, match="max_retries 2"):
        check_retries_off(client(api_key="k"))
    with pytest.raises(Problem, match="http_client of your own"):
        guarded(client, retries, api_key="k", http_client=object())
    made = guarded(client, retries, api_key="k")
    check_retries_off(made)
    # Time limits and pools are the SDK's own.
    assert made.timeout == client(api_key="k").timeout


@pytest.mark.parametrize("sdk", list(SDKS))
def test_the_environments_proxy_is_used_as_the_sdk_does(server: Api, sdk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url.removeprefix("http://"))
    monkeypatch.setenv("no_proxy", "127.0.0.1, .example")
    server.plan((503, {}, None))
    SDKS[sdk](Retries(LIMITS, OneProcess()), "http://api.invalid", stream=False, headers=KEY)
    assert [one.path.startswith("http://api.invalid/") for one in server.sent] == [True, True]
    server.plan()
    SDKS[sdk](Retries(LIMITS, OneProcess()), server.url, stream=False, headers=KEY)
    assert [one.path.startswith("/") for one in server.sent] == [True]


def test_a_class_of_a_workers_own_is_known_by_the_sdk_it_comes_from(server: Api) -> None:
    class Ours(openai.OpenAI):
        pass

    server.plan((503, {}, None))
    with guarded(Ours, Retries(LIMITS, OneProcess()), base_url=f"{server.url}/v1", api_key="k") as client:
        assert client.chat.completions.create(model="m", messages=MESSAGES, extra_headers=KEY)
    assert len(server.sent) == 2
    with pytest.raises(Problem, match="no SDK"):
        guarded(dict, Retries(LIMITS, OneProcess()))


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_retries_that_one_call_asks_for_are_refused_where_they_are_sent(server: Api, sdk: str) -> None:
    server.plan(*[(500, {}, None)] * 5)
    retries = Retries(LIMITS, OneProcess())
    with pytest.raises((Refused, anthropic.APIConnectionError)) as caught:
        if sdk == "openai":
            with guarded(openai.OpenAI, retries, base_url=f"{server.url}/v1", api_key="k") as client:
                client.with_options(max_retries=2).chat.completions.create(model="m", messages=MESSAGES)
        else:
            with guarded(anthropic.Anthropic, retries, base_url=server.url, api_key="k") as other:
                other.with_options(max_retries=2).messages.create(model="m", max_tokens=5, messages=MESSAGES)
    assert len(server.sent) == 1 and retries.ledger.counts()["nested-retries"] >= 1
    # Anthropic's SDK wraps whatever it does not know.
    refused = caught.value if sdk == "openai" else caught.value.__cause__
    assert isinstance(refused, Refused) and refused.decision.reason == "nested-retries"


LITELLM = """
import sys, json, asyncio, litellm, openai
from drillmaster.adapters.worker.retry import Retries
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.adapters.worker.retry_sdks import http_client
from drillmaster.guards.retry import Retry
from drillmaster.stores.one_process import OneProcess
litellm.suppress_debug_info = True
guard = Retry(max_calls=3, deadline_ms=10000, base_ms=4, cap_ms=2500, budget_tokens=100, refund=0.1)
async def by_loop(retries, options):
    litellm.aclient_session = http_client(openai.AsyncOpenAI, retries)
    async with litellm.aclient_session:
        await litellm.acompletion(**options)
for line in sys.stdin:
    retries, headers = Retries(guard, OneProcess()), json.loads(line)
    in_loop = headers.pop("in-a-loop", "")
    litellm.client_session = http_client(openai.OpenAI, retries)
    litellm.in_memory_llm_clients_cache.flush_cache()
    options = dict(model="openai/m", api_base=sys.argv[1] + "/v1", api_key="sk-test-0123456789", timeout=0.5,
                   messages=[{"role": "user", "content": "hello"}], num_retries=0, max_retries=0, extra_headers=headers)
    try:
        asyncio.run(by_loop(retries, options)) if in_loop else litellm.completion(**options)
        told = "ok"
    except Exception as error:
        told = type(error).__name__
    counts = {reason: n for reason, n in retries.ledger.counts().items() if n}
    print(json.dumps([told, retries.ledger.requests, retries.ledger.retries, counts]), flush=True)
"""


@pytest.fixture(scope="module")
def litellm(ours: ProxyProcess) -> Iterator[Callable[[dict[str, str]], list[Any]]]:
    """A process of LiteLLM's own environment; its calls through the guard, one by one."""
    source = str(Path(drillmaster.__file__).parent.parent)
    with subprocess.Popen(
        [litellm_python(), "-c", LITELLM, ours.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={"PYTHONPATH": source, "PATH": "/usr/bin:/bin", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None

        def ask(headers: dict[str, str]) -> list[Any]:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            process.stdin.write(msgspec.json.encode(headers) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, process.stderr.read()[-1500:]
            told: list[Any] = msgspec.json.decode(line)
            return told

        yield ask
        process.stdin.close()
        process.stdout.read()
        process.stderr.read()


@pytest.mark.parametrize("fault", EVERY, ids=lambda one: one.tag)
def test_litellm_under_every_fault(
    ours: ProxyProcess, litellm: Callable[[dict[str, str]], list[Any]], fault: Any
) -> None:
    for headers in (KEY, {}):
        window, before = f"w{next(windows)}", len(ours.rows("attempt"))
        ours.inject(fault.tag, window, ttl_s=2 if fault.tag in DRIPS else 30, **fault.params)
        _, requests, retries, counts = litellm(headers)
        ours.until(lambda state: state["counts"]["in_flight"] == 0)
        with contextlib.suppress(Problem):  # it is over by itself
            ours.lift(window)
        hold(requests, retries, counts, ours.rows("attempt")[before:], keyed=bool(headers))


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize(
    ("tag", "params", "calls", "reason"),
    [
        ("503", {}, 3, "budget-exhausted"),
        ("overloaded", {}, 3, "budget-exhausted"),
        ("rate-limit", {"retry_after_s": 1}, 3, "budget-exhausted"),
        ("rate-limit", {"retry_after_s": 3600}, 1, "retry-after-over-cap"),
        ("key-expired", {}, 1, "status-not-retryable"),
        ("status", {"status": 402}, 1, "status-not-retryable"),
        ("status", {"status": 500}, 1, "status-not-retryable"),
        ("fin-before-headers", {}, 1, "status-not-retryable"),
        ("hang", {}, 1, "status-not-retryable"),
        ("cut-body", {"after_bytes": 20}, 1, None),
        ("malformed-json", {}, 1, None),
    ],
)
def test_litellm_sends_what_the_policy_allows(
    ours: ProxyProcess,
    litellm: Callable[[dict[str, str]], list[Any]],
    tag: str,
    params: dict[str, Any],
    calls: int,
    reason: str | None,
    in_loop: bool,
) -> None:
    window, before = f"w{next(windows)}", len(ours.rows("attempt"))
    ours.inject(tag, window, ttl_s=60, **params)
    loop = {"in-a-loop": "yes"} if in_loop else {}
    keyed, bare = litellm({**KEY, **loop}), litellm(loop)
    ours.until(lambda state: state["counts"]["in_flight"] == 0)
    ours.lift(window)
    rows = ours.rows("attempt")[before:]
    assert keyed[1:3] == [1, calls - 1], keyed
    assert bare[1:3] == [1, 0]
    assert reason is None or keyed[3][reason] == 1
    assert len(rows) == calls + 1
    for row, following in itertools.pairwise(rows[:calls]):
        assert row.get("asked_s") is None or (following["start_ns"] - row["first_ns"]) / 1e9 >= row["asked_s"]
