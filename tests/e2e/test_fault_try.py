"""Every fault of the catalogue, in every API it strikes, streamed and not, tried once on real sockets; and the verb itself.

A row is a fault. Its cells run side by side, since most of one is waiting. A new entry has its cells at once.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drillmaster import faults
from drillmaster.dialects import names as dialect_names
from drillmaster.trying import Trial, Tried
from drillmaster.trying.asks import ask_for, why_not
from drillmaster.trying.parameters import filled
from drillmaster.trying.trial import run
from tests.e2e.wirelab import Origin, plain_answer

pytestmark = pytest.mark.e2e

LANES = 20
PATIENT_S = 20.0
"""A busy machine may take so long for what should take no time at all."""
BEGUN_S = 4.0
"""An answer that stalls is given up behind that; it has to have begun by then."""
SILENT_S = 1.5
SILENT = {"silent", "unanswered"}


def trial(tag: str, dialect: str, *, stream: bool) -> Trial | None:
    params, _ = filled(tag, faults.load(tag), {})
    fault = faults.make(tag, params)
    if why_not(fault, dialect, stream=stream) is not None or (dialect == "mcp" and stream):
        return None
    seen = set(fault.seen)
    limit_s = SILENT_S if seen <= SILENT else BEGUN_S if seen & {*SILENT, "stalled"} else PATIENT_S
    ask = ask_for(fault, dialect, stream=stream)
    return Trial.of(tag, params, dialect=dialect, stream=stream, ask=ask, limit_s=limit_s)


def cells(tag: str) -> list[Trial]:
    every = (trial(tag, dialect, stream=stream) for dialect in dialect_names() for stream in (False, True))
    return [one for one in every if one is not None]


@pytest.mark.parametrize("tag", faults.names())
def test_a_fault_is_met_as_described_in_every_api_it_strikes_streamed_and_not(tag: str) -> None:
    todo = cells(tag)
    assert todo
    with ThreadPoolExecutor(LANES) as lanes:
        came = list(lanes.map(run, todo))
    wrong = [one for one in came if not (one.met and one.as_described)]
    assert not wrong, [(one.dialect, one.stream, one.requests, one.why_not) for one in wrong]


def test_what_a_fault_does_not_strike_is_not_met_and_says_why() -> None:
    for tag, dialect, stream, why in (
        ("clean-end", "openai_chat", False, "--stream"),
        ("malformed-json", "anthropic", True, "--whole"),
        ("mcp-error", "openai_chat", False, "--dialect mcp"),
        ("usage-skew", "mcp", False, "MCP is none"),
    ):
        filled_in, _ = filled(tag, faults.load(tag), {})
        ask = ask_for(faults.make(tag, filled_in), dialect, stream=stream)
        came = run(Trial.of(tag, filled_in, dialect=dialect, stream=stream, ask=ask))
        assert not came.met and not came.as_described
        assert why in came.why_not


def test_what_a_fault_needs_is_all_that_it_strikes() -> None:
    """As `fault show` says it: all else passes, untouched and not met."""
    todo = []
    for tag in faults.names():
        params, _ = filled(tag, faults.load(tag), {})
        fault = faults.make(tag, params)
        for dialect, stream in (("openai_chat", False), ("openai_chat", True), ("anthropic", True), ("mcp", False)):
            if why_not(fault, dialect, stream=stream) is not None:
                ask = ask_for(fault, dialect, stream=stream)
                todo.append(Trial.of(tag, params, dialect=dialect, stream=stream, ask=ask, repeat=1, limit_s=PATIENT_S))
    assert len(todo) > 20
    with ThreadPoolExecutor(LANES) as lanes:
        came = list(lanes.map(run, todo))
    wrong = [one for one in came if one.met or one.requests[0].outcome.seen != one.baseline.seen]
    assert not wrong, [(one.fault, one.dialect, one.stream, one.requests) for one in wrong]


def test_half_a_head_is_shown_as_far_as_it_came() -> None:
    code, out, _ = fault_try("header-drip", "--time-limit", "0.9")
    assert code == 0
    assert "< HTTP/1.1 200 OK" in out.splitlines()
    assert "nothing at all" not in out


def test_nothing_of_a_trial_is_left_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    one = trial("hang", "openai_chat", stream=False)
    assert one is not None
    run(one)
    give_up = time.monotonic() + 5
    while len(os.listdir("/proc/self/fd")) > len(before) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def fault_try(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
    argv = [sys.executable, "-m", "drillmaster", "fault", "try", *words]
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def told(*words: str) -> tuple[int, Tried, list[str]]:
    import msgspec

    code, out, err = fault_try(*words, "--json")
    assert err == ""
    value = json.loads(out)
    lines = value.pop("transcript")
    return code, msgspec.convert(value, Tried), lines


def test_a_stream_that_ends_early_and_in_order_is_shown_for_what_it_is() -> None:
    code, out, err = fault_try("clean-end")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert "> POST /v1/chat/completions HTTP/1.1" in lines and "> authorization: [screened]" in lines
    assert "< HTTP/1.1 200 OK" in lines
    assert any(" ms  data: {" in line for line in lines)
    assert "[DONE]" not in out and "\x1b" not in out and "sk-standin" not in out
    assert "its last chunk came" in out
    assert "terminal state is missing" in out
    assert lines[-1] == "met as described: clean-end leaves a client with cut"


@pytest.mark.parametrize(
    ("words", "happens", "seen"),
    [
        (("refused",), "refused the connection (RST)", "refused"),
        (("rst-on-accept",), "(RST)", "reset"),
        (("syn-black-hole", "--time-limit", "0.6"), "did not answer the attempt to connect", "unanswered"),
        (("fin-before-headers",), "closed the connection (FIN) before an answer", "closed"),
        (("hang", "--time-limit", "0.8"), "gave up after 0.8 s", "silent"),
        (("stall", "--time-limit", "1"), "silence of", "stalled"),
        (("cut-body", "--param", "how=fin"), "(FIN) in the middle of its answer", "broken"),
        (("malformed-chunk", "--param", "where=framing"), "cannot be read: bad chunk size", "broken"),
        (("slow-close", "--param", "delay_ms=700"), "ended with the connection (FIN)", "complete"),
        (("header-drip",), "that head came in", "complete"),
        (("header-drip", "--time-limit", "0.9"), " bytes of a head", "silent"),
        (("mcp-error", "--param", "how=tool"), "its length is complete", "complete"),
        (("error-event", "--param", "shape=flat"), "openai_chat has no shape flat", "error"),
    ],
)
def test_what_happens_to_the_connection_has_a_line_of_its_own(words: tuple[str, ...], happens: str, seen: str) -> None:
    code, came, lines = told(*words)
    assert code == 0
    assert came.requests[-1].outcome.seen == seen
    assert any(line.startswith("* ") and happens in line for line in lines), lines


def test_a_stale_connection_is_met_by_the_second_request_on_it() -> None:
    code, came, lines = told("stale-keep-alive")
    assert code == 0
    assert [(one.outcome.seen, one.met) for one in came.requests] == [("complete", False), ("reset", True)]
    assert sum("is used again" in line for line in lines) == 1


def test_a_quota_is_tried_until_it_is_met_or_as_often_as_was_said() -> None:
    code, came, _ = told("requests-per-minute", "--param", "requests=2")
    assert code == 0 and [one.met for one in came.requests] == [False, False, True]
    code, came, _ = told("requests-per-minute", "--param", "requests=2", "--repeat", "2")
    assert code == 1 and not came.met
    code, came, _ = told("503", "--repeat", "3", "--dialect", "gemini", "--stream")
    assert code == 0 and [one.outcome.status for one in came.requests] == [503] * 3


RULES = """
rules:
  - {name: slow-for-blue, mode: first-byte-delay, params: {delay_ms: 60}, when: {header: {x-tenant: blue}}}
  - {name: busy-for-blue, mode: 503, when: {header: {x-tenant: blue}}, first: 2}
"""


def test_rules_of_a_plan_are_tried_and_each_request_says_which_met_it(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    rules = ("--rules", str(tmp_path / "rules.yaml"))
    code, came, _ = told(*rules, "--header", "x-tenant: blue", "--repeat", "3")
    assert code == 0
    both = ("slow-for-blue", "busy-for-blue")
    assert [one.by for one in came.requests] == [both, both, ("slow-for-blue",)]
    assert [one.outcome.status for one in came.requests] == [503, 503, 200]
    code, came, _ = told(*rules, "--header", "x-tenant: green", "--repeat", "2")
    assert code == 1 and not came.met and len(came.requests) == 2 and "no rule's `when` fits" in came.why_not


def test_a_condition_chooses_and_what_does_not_fit_is_not_met() -> None:
    code, came, _ = told("503", "--when", "model=gpt-4o*", "--when", "stream=false", "--model", "gpt-4o-mini")
    assert code == 0 and came.requests[0].by == ("503",)
    code, came, _ = told("503", "--when", "model=gpt-4o*")
    assert code == 1 and len(came.requests) == 1 and "--model" in came.why_not  # twenty of the same would fit no better
    code, came, _ = told("503", "--when", "model=gpt-4o*", "--repeat", "1")
    assert code == 1 and came.requests[0].outcome.status == 200


def test_the_same_request_without_the_fault_comes_first() -> None:
    _, came, lines = told("first-byte-delay", "--param", "delay_ms=900")
    assert (came.baseline.seen, came.baseline.status) == ("complete", 200)
    assert came.requests[0].outcome.end_ms - came.baseline.end_ms > 500
    assert any(line.startswith("* without the fault: complete") for line in lines)


def test_a_body_of_ones_own_goes_as_it_is_and_says_itself_whether_it_streams(tmp_path: Path) -> None:
    secret = "sk-" + "z9y8x7w6" * 3
    body = {"model": "m-1", "stream": True, "messages": [{"role": "user", "content": f"hello {secret}"}]}
    (tmp_path / "body.json").write_text(json.dumps(body))
    code, out, _ = fault_try("wrong-model", "--data", str(tmp_path / "body.json"))
    assert code == 0
    assert "a streamed answer" in out and '"model":"another-model"' in out
    assert secret not in out
    code, out, _ = fault_try("503", "--data", "-", stdin=json.dumps(body).encode())
    assert code == 0 and "m-1" in out


def test_a_server_of_ones_own_stands_in_the_stand_ins_place() -> None:
    origin = Origin(plain_answer)
    try:
        code, came, lines = told("cut-body", "--url", f"{origin.url}/v1", "--model", "m")
        assert code == 0 and came.requests[0].outcome.body_bytes == 60
        assert origin.connections >= 1 and any(origin.url in line for line in lines)
        # What that server does not stream cannot be cut in its stream.
        code, came, _ = told("clean-end", "--url", origin.url)
        assert code == 1 and not came.met
    finally:
        origin.close()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        code, _, err = fault_try("reset", "--url", f"http://127.0.0.1:{nobody.getsockname()[1]}")
    assert code == 2 and "nobody there" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 3), (signal.SIGTERM, 2)])
def test_a_trial_that_is_stopped_ends_at_once_and_tidily(number: signal.Signals, code: int) -> None:
    argv = [sys.executable, "-m", "drillmaster", "fault", "try", "hang", "--time-limit", "60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                if line.startswith("> {"):
                    break
            began = time.monotonic()
            process.send_signal(number)
            assert process.wait(10) == code
            assert time.monotonic() - began < 6
            assert "Traceback" not in process.stderr.read()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
