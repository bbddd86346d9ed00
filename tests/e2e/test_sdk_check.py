"""`drillmaster sdk-check` with the clients that the project's own environment has, over real sockets and processes."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.sdkcheck import Table
from drillmaster.sdkcheck.checking import check as measure
from drillmaster.sdkcheck.checking import installed
from tests.e2e.sdklab import POLICY, check, here, rows

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(500)]

SAME = "openai groq"
THREE = "openai anthropic groq"
MEASURED: tuple[tuple[str, str, str, int | None], ...] = (
    # What was measured by hand, with openai 3.57, anthropic 2.14, groq 1.7, google-genai 3.6, mistralai 3.7, litellm 1.110,
    # httpx 0.28, httpx2 2.16, requests 2.34, aiohttp 3.14: label, clients, class or outcome, requests on the wire.
    ("refused", THREE, "APIConnectionError", None),
    ("refused", "google-genai mistralai httpx httpx2", "ConnectError", None),
    ("refused", "litellm", "InternalServerError", None),
    ("refused", "requests", "ConnectionError", None),
    ("refused", "aiohttp", "ClientConnectorError", None),
    ("syn-black-hole", THREE, "APITimeoutError", None),
    ("syn-black-hole", "httpx httpx2", "ConnectTimeout", None),
    ("rst-on-accept", THREE, "APIConnectionError", 3),
    ("rst-on-accept", "google-genai mistralai httpx httpx2", "RemoteProtocolError|ReadError|ConnectError", 1),
    ("reset", THREE, "APIConnectionError", 3),
    ("reset", "google-genai mistralai httpx httpx2", "RemoteProtocolError|ReadError|ConnectError", 1),
    ("reset", "litellm", "InternalServerError", 3),
    ("reset", "requests", "ConnectionError", 1),
    ("reset", "aiohttp", "ClientOSError", 1),
    ("fin-before-headers", THREE, "APIConnectionError", 3),
    ("fin-before-headers", "google-genai mistralai httpx httpx2", "RemoteProtocolError", 1),
    ("fin-before-headers", "requests", "ConnectionError", 1),
    ("fin-before-headers", "aiohttp", "ServerDisconnectedError", 1),
    ("cut-body rst", THREE, "APIConnectionError", 3),
    ("cut-body rst", "google-genai mistralai httpx httpx2", "ReadError", 1),
    ("cut-body fin", THREE, "APIConnectionError", 3),
    ("cut-body fin", "google-genai mistralai httpx httpx2", "RemoteProtocolError", 1),
    ("cut-body fin", "litellm", "InternalServerError", 3),
    ("cut-body fin", "requests", "ChunkedEncodingError", 1),
    ("cut-body fin", "aiohttp", "ClientPayloadError", 1),
    ("stale-keep-alive", THREE + " litellm", "answered", 2),
    ("stale-keep-alive", "google-genai mistralai", "RemoteProtocolError|ReadError", 1),
    ("hang", THREE, "APITimeoutError", 3),
    ("hang", "google-genai mistralai httpx httpx2 requests", "ReadTimeout", 1),
    ("hang", "litellm", "Timeout", 3),
    ("hang", "aiohttp", "TimeoutError", 1),
    ("hang-after-headers", THREE, "APITimeoutError", 3),
    ("hang-after-headers", "google-genai mistralai httpx httpx2", "ReadTimeout", 1),
    ("hang-after-headers", "requests", "ConnectionError", 1),
    ("body-drip", THREE + " google-genai mistralai litellm httpx httpx2 requests", "answered", 1),
    ("body-drip", "aiohttp", "TimeoutError", 1),
    ("status 500", THREE + " litellm", "InternalServerError", 3),
    ("status 500", "google-genai", "ServerError", 1),
    ("status 500", "mistralai", "SDKError", 1),
    ("503", SAME, "InternalServerError", 3),
    ("503", "anthropic", "ServiceUnavailableError", 3),
    ("status 502 html", THREE, "InternalServerError", 3),
    ("status 502 html", "litellm", "BadGatewayError", 3),
    ("status 529", SAME, "InternalServerError", 3),
    ("status 529", "anthropic", "OverloadedError", 3),
    ("status 529", "litellm", "APIError", 3),
    ("status 408", SAME, "APIStatusError", 3),
    ("status 408", "anthropic", "RequestTimeoutError", 3),
    ("status 409", THREE, "ConflictError", 3),
    ("status 409", "google-genai", "ClientError", 1),
    ("rate-limit 1 s", THREE + " litellm", "RateLimitError", 3),
    ("rate-limit 1 s", "google-genai", "ClientError", 1),
    ("rate-limit 1 s", "mistralai", "SDKError", 1),
    ("rate-limit 60 s", THREE + " litellm", "waiting", 1),
    ("rate-limit 3600 s", "openai litellm litellm-anthropic", "RateLimitError", 1),
    ("rate-limit 3600 s", "anthropic", "waiting", 1),  # no cap: it sleeps for whatever is asked
    ("rate-limit 3600 s", "groq", "RateLimitError", 3),
    ("quota-spent", "openai litellm", "RateLimitError", 3),
    ("status 429 x-should-retry: false", THREE + " litellm", "RateLimitError", 1),
    ("status 400 x-should-retry: true", THREE + " litellm", "BadRequestError", 3),
    ("status 400 x-should-retry: true", "google-genai", "ClientError", 1),
    ("status 401", THREE + " litellm", "AuthenticationError", 1),
    ("context-length", THREE, "BadRequestError", 1),
    ("malformed-json", THREE + " google-genai", "JSONDecodeError", 1),
    ("malformed-json", "mistralai", "ResponseValidationError", 1),
    ("malformed-json", "litellm", "InternalServerError", 1),
    ("empty-200", THREE, "JSONDecodeError", 1),
    ("empty-200", "google-genai", "fooled", 1),
    ("empty-200", "mistralai", "ResponseValidationError", 1),
    ("empty-object", THREE + " google-genai", "fooled", 1),
    ("empty-object", "mistralai", "ResponseValidationError", 1),
    ("error-in-200", THREE + " google-genai", "fooled", 1),
    ("error-in-200", "litellm", "InternalServerError|APIError", 1),
    ("html-200", THREE, "fooled", 1),
    ("html-200", "google-genai", "JSONDecodeError", 1),
    ("html-200", "mistralai", "SDKError", 1),
    ("bad-gzip", THREE, "APIConnectionError", 3),
    ("bad-gzip", "google-genai mistralai httpx httpx2", "DecodingError", 1),
    ("bad-gzip", "requests", "ContentDecodingError", 1),
    ("bad-gzip", "aiohttp", "ClientPayloadError", 1),
    ("login-redirect", THREE, "fooled", 2),  # they follow; here the page is there
)
STREAMED: tuple[tuple[str, str, str, int | None], ...] = (
    # Nobody sends a request again after its first byte.
    ("clean-end", "openai openai-responses anthropic anthropic-helper httpx httpx2 aiohttp", "fooled", 1),
    ("clean-end", "litellm", "MidStreamFallbackError", 1),
    ("clean-end close", "openai openai-responses anthropic anthropic-helper", "fooled", 1),
    ("clean-end close", "litellm", "MidStreamFallbackError", 1),
    ("cut-stream", "openai openai-responses", "APIConnectionError", 1),
    ("cut-stream", "anthropic anthropic-helper httpx httpx2", "RemoteProtocolError", 1),
    ("cut-stream", "litellm", "MidStreamFallbackError", 1),
    ("cut-stream", "aiohttp", "ClientPayloadError", 1),
    ("reset-stream", "openai openai-responses", "APIConnectionError", 1),
    ("reset-stream", "anthropic anthropic-helper httpx httpx2", "ReadError", 1),
    ("stall", "openai openai-responses", "APITimeoutError", 1),
    ("stall", "anthropic anthropic-helper httpx httpx2", "ReadTimeout", 1),
    ("stall", "litellm", "Timeout", 1),
    ("stall", "aiohttp", "TimeoutError", 1),
    ("ping-stall", "openai openai-responses anthropic anthropic-helper httpx httpx2", "waiting", 1),
    ("ping-stall", "aiohttp", "TimeoutError", 1),  # its limit is one of the whole call
    ("error-event data-error", "openai", "APIError", 1),
    ("error-event data-error", "litellm", "MidStreamFallbackError", 1),
    ("error-event data-error", "httpx httpx2 aiohttp", "fooled", 1),
    ("error-event nested", "openai-responses", "APIError", 1),
    ("error-event flat", "openai-responses", "fooled", 1),
    ("error-event failed", "openai-responses", "fooled", 1),
    ("error-event event", "anthropic anthropic-helper", "APIStatusError", 1),
    ("malformed-chunk", "openai openai-responses anthropic anthropic-helper", "JSONDecodeError", 1),
    ("malformed-chunk", "litellm", "MidStreamFallbackError", 1),
    ("empty-200", "openai openai-responses anthropic litellm", "fooled", 1),
    ("empty-200", "anthropic-helper", "AssertionError", 1),
    ("html-200", "openai openai-responses anthropic litellm", "fooled", 1),
    ("html-200", "anthropic-helper", "AssertionError", 1),
    ("error-in-200", "openai openai-responses anthropic litellm", "fooled", 1),
    ("missing-terminal", "openai anthropic anthropic-helper litellm", "answered", 1),
    ("split-utf8", "openai openai-responses anthropic anthropic-helper litellm", "answered", 1),
)


def faults_of(rows: tuple[tuple[str, str, str, int | None], ...]) -> list[str]:
    return [word for tag in dict.fromkeys(row[0].split()[0] for row in rows) for word in ("--fault", tag)]


def moved(table: Table, stream: bool) -> Iterator[str]:
    """What is not within one request and the class of what was measured, of the clients that the table has."""
    found = {(row.client, row.label): row for row in table.results if row.stream == stream}
    for label, clients, wanted, attempts in STREAMED if stream else MEASURED:
        for client in clients.split():
            if client not in table.defaults:
                continue
            row = found[client, label]
            said = row.what.rpartition(".")[2] if row.outcome == "raised" else row.outcome
            near = attempts is None or (row.attempts is not None and abs(row.attempts - attempts) <= 1)
            if not re.fullmatch(wanted, said) or not near:
                yield f"{client} {label}: {said} / {row.attempts}, was {wanted} / {attempts} ({row.log})"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Table]:
    """Every client of this environment under all that was measured by hand; and the folder."""
    folder = tmp_path_factory.mktemp("measured")
    argv = faults_of((*MEASURED, *STREAMED))
    trap = "http://192.0.2.1:1"  # nobody lives there: a client that heard of it would fail
    environ = dict.fromkeys(("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "ALL_PROXY", "SSL_CERT_FILE"), trap)
    found = check(folder, *argv, "--json", "table.json", **environ)
    assert found.returncode == 0, found.stderr
    return folder, msgspec.json.decode((folder / "table.json").read_bytes(), type=Table)


@pytest.mark.parametrize("stream", [False, True])
def test_what_was_measured_by_hand_is_found_again(measured: tuple[Path, Table], stream: bool) -> None:
    _, table = measured
    assert {"openai", "anthropic", "google-genai", "mistralai", "groq", "httpx", "httpx2", "requests"} <= set(
        table.defaults
    )
    assert list(moved(table, stream)) == []


def test_a_fallback_is_missed_where_the_error_is_not_the_clients_own(measured: tuple[Path, Table]) -> None:
    rows = {(row.client, row.label, row.stream): row for row in measured[1].results}
    assert rows["openai", "reset-stream", True].fallback is True
    assert rows["anthropic", "reset-stream", True].fallback is False
    assert rows["anthropic", "clean-end", True].fallback is False
    assert rows["openai", "body-drip", False].fallback is None


def test_the_worst_case_is_that_of_the_clients_own_limits(measured: tuple[Path, Table]) -> None:
    rows = {(row.client, row.label, row.stream): row.worst_s for row in measured[1].results}
    assert 1800 < (rows["openai", "hang", False] or 0) < 1810  # three times 600 s, and the waits between
    assert 180 < (rows["groq", "hang", False] or 0) < 190
    assert 15 < (rows["openai", "syn-black-hole", False] or 0) < 20
    assert rows["google-genai", "hang", False] is None
    assert rows["requests", "hang", False] is None
    assert rows["anthropic", "rate-limit 3600 s", False] == 7200
    assert rows["anthropic", "ping-stall", True] is None


def test_every_cell_leads_to_its_wire_log_and_the_clients_own_words(measured: tuple[Path, Table]) -> None:
    folder, table = measured
    for row in table.results:
        log = folder / table.logs / row.log
        events = [json.loads(line) for line in (log / "proxy.jsonl").read_bytes().splitlines()]
        assert events[0]["event"] == "proxy_started" and events[-1]["event"] == "proxy_ended"
        seen = sum(event["event"] == "attempt" for event in events)
        assert row.attempts is None or row.attempts <= max(seen, sum(event["event"] == "fault_met" for event in events))
        assert json.loads((log / "client.json").read_bytes())["how"] in ("raised", "returned", "waiting")


def test_a_limit_that_holds_until_the_watch_ends_is_waiting_and_its_worst_case_is_computed(tmp_path: Path) -> None:
    argv = ("--client", "anthropic", "--fault", "rate-limit", "--watch-s", "4", "--json", "-")
    found = rows(check(tmp_path, *argv))
    assert found["anthropic", "rate-limit 3600 s", False]["outcome"] == "waiting"
    assert found["anthropic", "rate-limit 3600 s", False]["worst_s"] == 7200


def test_exit_codes_follow_the_expectations(tmp_path: Path) -> None:
    rules = tmp_path / "expect.yaml"
    argv = ("--client", "openai", "--fault", "503", "--fault", "clean-end", "--expect", str(rules))
    rules.write_text(POLICY + "  - {client: openai, fault: clean-end, outcome: [raised]}\n")
    found = check(tmp_path, *argv, "--logs", "one")
    assert found.returncode == 1, found.stderr
    assert "BROKEN: openai, clean-end, streamed: LOOKED LIKE SUCCESS" in found.stdout
    rules.write_text(POLICY + "  - {client: openai, fault: '503', fallback: true, max_attempts: 3}\n")
    found = check(tmp_path, *argv, "--logs", "two", "--html", "page.html", "--markdown", "page.md")
    assert found.returncode == 0, found.stderr + found.stdout
    assert "PASS 1 expectations hold" in found.stdout
    assert 'href="two/openai/503-whole/proxy.jsonl"' in (tmp_path / "page.html").read_text()
    rules.write_text(POLICY + "  - {client: groq, fault: '503', fallback: true}\n")
    found = check(tmp_path, *argv, "--logs", "three", "--compare", "two/table.json")
    assert found.returncode == 2
    assert "no measured cell that it chooses" in found.stderr
    assert "nothing changed" in found.stdout


def test_a_table_that_is_there_is_kept_and_the_one_to_compare_with_is_never_written_over(tmp_path: Path) -> None:
    argv = ("--client", "httpx2", "--fault", "503", "--json", "sdk.json")
    assert check(tmp_path, *argv, "--logs", "one").returncode == 0
    first = (tmp_path / "sdk.json").read_bytes()
    found = check(tmp_path, *argv, "--logs", "two", "--compare", "./sdk.json")
    assert found.returncode == 2
    assert "--json sdk.new.json" in found.stderr and not (tmp_path / "two").exists()  # before a minute of measuring
    assert (tmp_path / "sdk.json").read_bytes() == first
    found = check(tmp_path, *argv, "--logs", "three")
    assert found.returncode == 0
    assert "kept as sdk.json.old" in found.stderr
    assert (tmp_path / "sdk.json.old").read_bytes() == first
    assert b"three" in (tmp_path / "sdk.json").read_bytes()
    assert check(tmp_path, *argv[:4], "--json", "/dev/null", "--logs", "four").returncode == 0


def test_an_interpreter_without_clients_is_refused_with_the_remedy(tmp_path: Path) -> None:
    found = check(tmp_path, "--python", "/usr/bin/false")
    assert found.returncode == 2
    assert "--python" in found.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.needs("strace")
def test_no_process_of_a_check_connects_to_anything_but_loopback(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    argv = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=connect,sendto,sendmsg",
        "-o",
        str(trace),
        sys.executable,
        "-m",
        "drillmaster",
    ]
    found = subprocess.run(
        [*argv, "sdk-check", "--fault", "503", "--limit-s", "20", "--watch-s", "90", "--lanes", "8"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    said = re.findall(r"inet_addr\(\"([^\"]+)\"\)|inet_pton\(AF_INET6, \"([^\"]+)\"", trace.read_text())
    assert len(said) > 30
    assert {one or other for one, other in said} <= {"127.0.0.1", "::1"}


@pytest.mark.needs("unshare")
def test_a_check_needs_no_network_but_loopback(tmp_path: Path) -> None:
    script = 'ip link set lo up && exec "$@"'
    argv = [
        "unshare",
        "--user",
        "--map-root-user",
        "--net",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-m",
        "drillmaster",
    ]
    words = ["sdk-check", "--client", "openai", "--client", "httpx2", "--fault", "503", "--json", "table.json"]
    found = subprocess.run([*argv, *words], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    if "unshare failed" in found.stderr:
        pytest.skip("needs namespaces of its own")
    assert found.returncode == 0, found.stderr
    table = json.loads((tmp_path / "table.json").read_bytes())
    assert [row["attempts"] for row in table["results"] if row["client"] == "openai"] == [3, 3]


@pytest.mark.needs("node")
def test_nodes_own_fetch_is_checked_where_node_is(tmp_path: Path) -> None:
    argv = ("--node", str(tmp_path), "--client", "node-fetch", "--fault", "503", "--fault", "clean-end", "--json", "-")
    found = rows(check(tmp_path, *argv))
    assert found["node-fetch", "503", False]["what"] == "fetch.Error"
    assert found["node-fetch", "clean-end", True]["outcome"] == "fooled"


async def one_check(logs: Path, disturb: Any) -> Table:
    version, clients = await installed(sys.executable, None)
    task = asyncio.create_task(
        measure(
            version,
            clients,
            ["httpx2"],
            ["hang", "503"],
            python=sys.executable,
            node=None,
            logs=logs,
            limit_s=1.0,
            watch_s=10.0,
            lanes=4,
            on=lambda done, every: None,
        )
    )
    while not (logs / "httpx2/hang-whole").exists():
        await asyncio.sleep(0.02)
    disturb()
    return await task


def test_a_call_that_a_busy_machine_may_have_spoilt_is_made_again(tmp_path: Path) -> None:
    # The bench is late, as on a machine that does something else.
    table = asyncio.run(one_check(tmp_path / "logs", lambda: time.sleep(0.9)))
    rows = {(row.label, row.stream): row for row in table.results}
    assert rows["hang", False].log == "httpx2/hang-whole-again-1"
    assert (rows["hang", False].what, rows["hang", False].attempts) == ("httpx2.ReadTimeout", 1)
    assert (tmp_path / "logs/httpx2/hang-whole-again-1/proxy.jsonl").exists()
    # What took less than the limit met none.
    assert rows["503", False].log == "httpx2/503-whole"


def test_a_proxy_that_fails_is_no_result(tmp_path: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError("in a callback")

    with pytest.raises(ZeroDivisionError, match="in a callback"):
        asyncio.run(one_check(tmp_path / "logs", lambda: asyncio.get_running_loop().call_soon(fail)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_check_that_is_stopped_keeps_what_it_measured_and_leaves_nobody(
    tmp_path: Path, number: signal.Signals
) -> None:
    argv = [
        sys.executable,
        "-m",
        "drillmaster",
        "sdk-check",
        "--client",
        "httpx2",
        "--client",
        "requests",
        "--logs",
        "logs",
    ]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        due = time.monotonic() + 60
        while not (tmp_path / "logs/httpx2/throttle-whole/client.json").exists() and time.monotonic() < due:
            time.sleep(0.05)
        process.send_signal(number)
        err = process.communicate(timeout=30)[1]
    assert process.returncode == 3
    assert "what was measured so far: logs/table.json" in err
    table = msgspec.json.decode((tmp_path / "logs/table.json").read_bytes(), type=Table)
    assert table.results
    assert any(entry.why == "the check was stopped before" for entry in table.not_run)
    assert not here(tmp_path)
