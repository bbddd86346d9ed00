"""OpenFeature's own SDKs, in Python and Node, read the flag server as any OFREP server."""

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode

from drillmaster.adapters.worker.openfeature import ChaosProvider
from tests.conftest import find_program
from tests.e2e.flagslab import TOKENS, lab, until

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "chaos-flags.md"
PACKAGES = [
    "@openfeature/server-sdk@1.23",
    "@openfeature/ofrep-provider@0.1",
    "@openfeature/ofrep-core@0.1",
    "@openfeature/web-sdk@1.10",
    "@openfeature/ofrep-web-provider@0.4",
    "typescript@5",
]
NODE_SDK = """
import { OpenFeature } from "@openfeature/server-sdk";
import { OFREPProvider } from "@openfeature/ofrep-provider";

const headers = [["Authorization", `Bearer ${process.env.CHAOS_TOKEN}`]];
const provider = new OFREPProvider({ baseUrl: process.env.CHAOS_URL, headers });
await OpenFeature.setProviderAndWait(provider);
const client = OpenFeature.getClient();
const told = [];
for (const [flag, targetingKey] of JSON.parse(process.argv[2])) {
  const { value, reason, variant, errorCode, flagMetadata } = await client.getBooleanDetails(flag, false, { targetingKey });
  told.push({ value, reason, variant, errorCode, kind: flagMetadata?.kind });
}
console.log(JSON.stringify(told));
await OpenFeature.close();
"""
NODE_BULK = """
import { createInterface } from "node:readline";
import { OpenFeature } from "@openfeature/web-sdk";

const real = globalThis.fetch;
const polls = []; // each: the ETag that was sent along, the status, the ETag that came back
globalThis.fetch = async (url, init) => {
  const known = new Headers(init.headers ?? url.headers).get("if-none-match");
  const answer = await real(url, init);
  polls.push([known, answer.status, answer.headers.get("etag")]);
  return answer;
};
const { meets, killed } = await import("./bulk.mjs");
for await (const line of createInterface({ input: process.stdin })) {
  const times = Number(line);
  const before = polls.length;
  let met = 0;
  let refused = 0;
  for (let n = 0; n < times; n += 1) { met += meets("tenfold"); refused += killed("refund"); }
  console.log(JSON.stringify({ met, refused, asked: polls.length - before, polls }));
}
await OpenFeature.close();
"""
TYPED = """
import type {
  BulkEvaluationFailureResponse, BulkEvaluationSuccessResponse, EvaluationFailureResponse, EvaluationSuccessResponse,
} from "@openfeature/ofrep-core";
type Worded<T> = T extends string ? `${T}` : T extends (infer E)[] ? Worded<E>[]
  : T extends object ? { [K in keyof T]: Worded<T[K]> } : T;
type Exact<T> = Worded<Required<T>>;
"""
"""Its answers are enums by name; JSON has their words."""
NODE_WORKER = """
import { createInterface } from "node:readline";
import { OpenFeature } from "@openfeature/server-sdk";
import { ChaosProvider } from "./provider.mjs";

await OpenFeature.setProviderAndWait(new ChaosProvider());
const client = OpenFeature.getClient();
for await (const line of createInterface({ input: process.stdin })) {
  const [type, flag, targetingKey] = JSON.parse(line);
  const told = await client[`get${type}Details`](flag, type === "Boolean" ? false : 3, { targetingKey });
  const { value, variant, errorCode, flagMetadata } = told;
  console.log(JSON.stringify({ value, variant, errorCode, kind: flagMetadata.kind }));
}
await OpenFeature.close();
"""


@pytest.fixture
def sdk() -> Iterator[None]:
    yield
    api.shutdown()
    api.clear_providers()


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OpenFeature's packages of npm: a few folders, seconds."""
    folder = tmp_path_factory.mktemp("openfeature")
    npm = [shutil.which("npm") or "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    told = subprocess.run([*npm, *PACKAGES], cwd=folder, capture_output=True, timeout=170, check=False)
    if told.returncode:
        pytest.skip("needs npm's @openfeature packages")
    return folder


def test_the_python_sdk_reads_what_is_on(short_dir: Path, sdk: None) -> None:
    with lab(short_dir) as server:
        headers = {"Authorization": f"Bearer {TOKENS['read']}"}
        api.set_provider(OFREPProvider(server.url, headers_factory=lambda: headers))
        client = api.get_client()
        assert client.get_boolean_value("tenfold", True) is False
        server.enable("tenfold", first=1)
        of_one = EvaluationContext(targeting_key="m1")
        told = client.get_boolean_details("tenfold", False, of_one)
        assert (told.value, told.variant, told.reason) == (True, "on", "SPLIT")
        assert told.flag_metadata["kind"] == "wrong-answer"
        assert json.loads(str(told.flag_metadata["change"])) == {"at": "/amount", "multiply": 10.0}
        assert client.get_boolean_value("tenfold", False, of_one) is False  # the retry recovers
        assert client.get_boolean_value("tenfold", False, EvaluationContext(targeting_key="m2")) is True
        missing = client.get_boolean_details("nosuch", True)
        assert (missing.value, missing.error_code) == (True, ErrorCode.FLAG_NOT_FOUND)
        server.kill("refund")
        assert client.get_boolean_value("refund", False) is True
        server.signal(signal.SIGKILL)
        assert client.get_boolean_details("refund", True).error_code == ErrorCode.GENERAL  # the caller's default holds


def test_the_python_sdk_decides_in_the_process_and_is_a_worker(short_dir: Path, sdk: None) -> None:
    with lab(short_dir) as server:
        api.set_provider_and_wait(ChaosProvider(server.url))
        client = api.get_client()
        assert client.get_boolean_value("tenfold", True) is False
        missing = client.get_boolean_details("tenflod", True)
        assert (missing.error_code, "Did you mean 'tenfold'?" in str(missing.error_message)) == (
            ErrorCode.FLAG_NOT_FOUND,
            True,
        )
        server.enable("toolError", first=1)
        of_one = EvaluationContext(targeting_key="m1")
        until(lambda: client.get_boolean_value("toolError", False, of_one), what="the flag")
        assert client.get_boolean_value("toolError", False, of_one) is False
        told = server.kill("refund", wait_s=5)[1]
        assert (len(told["held_by"]), told["not_held"]) == (1, [])
        assert client.get_boolean_details("refund", False).flag_metadata["kind"] == "kill"
        assert client.get_boolean_value("refund", False) is True
        server.signal(signal.SIGKILL)
        assert client.get_boolean_value("refund", False) is True  # kills stay
        server.start()
        assert client.get_integer_details("refund", 3).error_code == ErrorCode.TYPE_MISMATCH
        api.shutdown()
        assert any(line["flag"] == "refund" and line["n"] == 3 for line in server.lines("flag_met"))


def test_the_python_sdk_ends_in_order_without_a_complaint(
    short_dir: Path, sdk: None, caplog: pytest.LogCaptureFixture
) -> None:
    with lab(short_dir) as server:
        api.set_provider_and_wait(ChaosProvider(server.url))
        until(lambda: server.get("/workers")[1]["workers"], what="the worker")
        time.sleep(0.2)  # its next question is held
        api.shutdown()
        until(lambda: not server.get("/workers")[1]["workers"], what="its leave")
    assert caplog.text == ""


@pytest.mark.needs("node", "npm")
def test_the_node_sdk_reads_the_same(short_dir: Path, packages: Path) -> None:
    with lab(short_dir) as server:
        server.enable("tenfold", first=1)
        server.kill("refund")
        asks = [["tenfold", "m1"], ["tenfold", "m1"], ["toolError", "m1"], ["refund", "m1"], ["nosuch", "m1"]]
        told = _node(packages, "sdk.mjs", NODE_SDK, json.dumps(asks), CHAOS_URL=server.url, CHAOS_TOKEN=TOKENS["read"])
    assert [(one["value"], one.get("errorCode"), one.get("kind")) for one in told] == [
        (True, None, "wrong-answer"),
        (False, None, "wrong-answer"),
        (False, None, "error"),
        (True, None, "kill"),
        (False, "FLAG_NOT_FOUND", None),
    ]


@pytest.mark.needs("node", "npm")
def test_the_pages_provider_in_node_decides_in_the_process_and_is_a_worker(short_dir: Path, packages: Path) -> None:
    """The two files that the page prints, under the SDK of npm: kills in under a second, chaos no longer than the lease."""
    _write_blocks(packages, "flags.mjs", "provider.mjs")
    with lab(short_dir) as server:
        argv = [str(find_program("node")), "worker.mjs"]
        (packages / "worker.mjs").write_text(NODE_WORKER)
        env = {"PATH": "/usr/bin:/bin", "CHAOS_URL": server.url, "CHAOS_TOKEN": TOKENS["read"]}
        with subprocess.Popen(
            argv, cwd=packages, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as node:
            assert node.stdin is not None
            assert node.stdout is not None
            stdin, stdout = node.stdin, node.stdout

            def ask(flag: str, mission: str = "m1", kind: str = "Boolean") -> Any:
                stdin.write(json.dumps([kind, flag, mission]) + "\n")
                stdin.flush()
                return json.loads(stdout.readline())

            assert ask("tenfold") == {"value": False, "variant": "off", "kind": "wrong-answer"}
            assert ask("nosuch") == {"value": False, "errorCode": "FLAG_NOT_FOUND"}
            assert ask("refund", kind="Number")["errorCode"] == "TYPE_MISMATCH"
            server.enable("toolError", first=1)
            until(lambda: ask("toolError", "m2")["value"], what="the flag")
            assert [ask("toolError", "m3")["value"] for _ in range(3)] == [True, False, False]  # the retry recovers
            told = server.kill("refund", wait_s=5)[1]
            assert (len(told["held_by"]), told["not_held"]) == (1, [])
            assert told["seconds"] < 1
            assert ask("refund") == {"value": True, "variant": "on", "kind": "kill"}
            server.enable("tenfold")
            until(lambda: ask("tenfold")["value"], what="the flag")
            server.signal(signal.SIGKILL)
            gone_s = time.monotonic()
            until(lambda: not ask("tenfold")["value"], what="the end of the chaos")
            assert time.monotonic() - gone_s < 2.5  # the lease, and no longer
            assert ask("refund")["value"] is True  # kills stay
            server.start()
            until(
                lambda: any(one["pid"] == node.pid for one in server.get("/workers")[1]["workers"]), what="the worker"
            )
            assert ask("tenfold")["value"] is False
            stdin.close()
            assert node.wait(timeout=10) == 0
        met = {line["flag"]: line["n"] for line in server.lines("flag_met")}
    assert (met["refund"], met["toolError"]) == (2, 2)


@pytest.mark.needs("node", "npm")
def test_the_pages_provider_in_node_leaves_the_default_where_no_server_answers(short_dir: Path, packages: Path) -> None:
    _write_blocks(packages, "flags.mjs", "provider.mjs")
    ask = """
import { OpenFeature } from "@openfeature/server-sdk";
import { ChaosProvider } from "./provider.mjs";
await OpenFeature.setProviderAndWait(new ChaosProvider());
const { value, errorCode } = await OpenFeature.getClient().getBooleanDetails("refund", true);
console.log(JSON.stringify([value, errorCode]));
await OpenFeature.close();
"""
    assert _node(packages, "alone.mjs", ask, CHAOS_URL="http://127.0.0.1:9") == [True, "PROVIDER_NOT_READY"]


@pytest.mark.needs("node", "npm")
def test_each_answer_of_ofrep_fits_the_protocols_published_types(short_dir: Path, packages: Path) -> None:
    """Those of npm's ofrep-core, with every optional field there; a 304 has no body."""
    path = "/ofrep/v1/evaluate/flags"
    with lab(short_dir) as server:
        server.enable("tenfold", share=0.5)
        server.kill("refund")
        said = {
            "EvaluationSuccessResponse": [
                server.ask("POST", f"{path}/{key}", {})[1] for key in ("tenfold", "refund", "search")
            ],
            "EvaluationFailureResponse": [
                server.ask("POST", f"{path}/nosuch", {})[1],
                server.ask("POST", f"{path}/tenfold", {"context": {"targetingKey": 3}})[1],
                server.ask("POST", f"{path}/tenfold", b"{")[1],
            ],
            "BulkEvaluationSuccessResponse": [server.ask("POST", path, {})[1]],
            "BulkEvaluationFailureResponse": [server.ask("POST", path, {"context": 3})[1]],
        }
    rows = [(kind, answer) for kind, answers in said.items() for answer in answers]
    assert len(rows) == 8
    assert _compiles(packages, rows)
    for kind, answers in said.items():
        word = {"Eval": "key", "Bulk": "flags"}[kind[:4]] if "Success" in kind else "errorCode"
        broken = {**answers[0], word: 5}
        assert not _compiles(packages, [(kind, broken)]), kind


def _compiles(folder: Path, rows: list[tuple[str, Any]]) -> bool:
    lines = [f"export const answer{n}: Exact<{kind}> = {json.dumps(answer)};" for n, (kind, answer) in enumerate(rows)]
    (folder / "check.ts").write_text(TYPED + "\n".join(lines))
    argv = [str(folder / "node_modules/.bin/tsc"), "--noEmit", "--skipLibCheck", "--strict", "--module", "esnext"]
    argv += ["--target", "es2022", "--moduleResolution", "bundler", "check.ts"]
    ran = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    print(ran.stdout + ran.stderr)  # shown where a test fails
    return ran.returncode == 0


@pytest.mark.needs("node", "npm")
def test_the_node_web_sdk_keeps_what_it_read_and_does_not_let_chaos_end(short_dir: Path, packages: Path) -> None:
    """Why the page gives another provider: a flag is on for everybody, and stays on where its server died."""
    with lab(short_dir) as server:
        server.enable("tenfold", first=1)
        ask = """
import { OpenFeature } from "@openfeature/web-sdk";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import { createInterface } from "node:readline";

const headers = [["Authorization", `Bearer ${process.env.CHAOS_TOKEN}`]];
const options = { baseUrl: process.env.CHAOS_URL, headers, pollInterval: 100, cacheMode: "disabled" };
await OpenFeature.setProviderAndWait(new OFREPWebProvider(options));
const client = OpenFeature.getClient();
for await (const _ of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(["tenfold", "refund"].map((flag) => client.getBooleanValue(flag, false))));
}
await OpenFeature.close();
"""
        (packages / "web.mjs").write_text(ask)
        env = {"PATH": "/usr/bin:/bin", "CHAOS_URL": server.url, "CHAOS_TOKEN": TOKENS["read"]}
        argv = [str(find_program("node")), "web.mjs"]
        with subprocess.Popen(
            argv, cwd=packages, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as node:
            assert node.stdin is not None
            assert node.stdout is not None
            stdin, stdout = node.stdin, node.stdout

            def both() -> Any:
                stdin.write("\n")
                stdin.flush()
                return json.loads(stdout.readline())

            assert [both(), both()] == [[True, False], [True, False]]  # nobody's retry recovers
            server.kill("refund")
            until(lambda: both() == [True, True], what="the kill")
            server.signal(signal.SIGKILL)
            time.sleep(1.5)  # longer than the lease
            assert both() == [True, True]
            stdin.close()
            assert node.wait(timeout=10) == 0


@pytest.mark.needs("node", "npm")
def test_the_pages_file_reads_in_bulk_and_evaluates_without_asking(short_dir: Path, packages: Path) -> None:
    """OFREP's bulk way under npm's web SDK: ETags, 304s, the next poll, and a lease that ends chaos and keeps kills."""
    _write_blocks(packages, "bulk.mjs")
    (packages / "reader.mjs").write_text(NODE_BULK)
    with lab(short_dir) as server:
        env = {"PATH": "/usr/bin:/bin", "CHAOS_URL": server.url, "CHAOS_TOKEN": TOKENS["read"]}
        argv = [str(find_program("node")), "reader.mjs"]
        with subprocess.Popen(
            argv, cwd=packages, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as node:
            assert node.stdin is not None
            assert node.stdout is not None
            stdin, stdout = node.stdin, node.stdout

            def ask(times: int = 1) -> Any:
                stdin.write(f"{times}\n")
                stdin.flush()
                return json.loads(stdout.readline())

            def seen(**wanted: int) -> Any:
                return until(
                    lambda: (told := ask())["met"] == wanted["met"] and told["refused"] == wanted["refused"] and told
                )

            assert ask()["polls"][0][:2] == [None, 200]
            told = until(lambda: len((told := ask())["polls"]) >= 3 and told, what="the third poll")
            first = told["polls"][0][2]
            assert told["polls"][1:3] == [[first, 304, first]] * 2
            many = ask(5_000)
            assert (many["met"], many["refused"], many["asked"]) == (0, 0, 0)

            before = len(ask()["polls"])
            server.enable("tenfold", first=1)
            after = len(ask()["polls"])
            _by_the_next_poll(seen(met=1, refused=0)["polls"], before, after)
            many = ask(5_000)
            assert (many["met"], many["refused"], many["asked"]) == (5_000, 0, 0)  # everybody: there is one context
            before = len(ask()["polls"])
            server.kill("refund")
            after = len(ask()["polls"])
            _by_the_next_poll(seen(met=1, refused=1)["polls"], before, after)

            server.signal(signal.SIGKILL)
            told = seen(met=0, refused=1)  # chaos ends with the lease, the kill stays
            server.start()
            polls = len(told["polls"])
            told = until(lambda: len((told := ask())["polls"]) > polls and told, what="a poll of the new server")
            assert told["polls"][polls][1] == 200  # another server's ETag is none of its own
            assert (told["met"], told["refused"]) == (0, 1)
            server.enable("tenfold")
            seen(met=1, refused=1)
            server.restore("refund")
            seen(met=1, refused=0)
            stdin.close()
            assert node.wait(timeout=10) == 0


@pytest.mark.needs("node", "npm")
def test_the_pages_file_that_reads_in_bulk_does_not_begin_without_a_server(packages: Path) -> None:
    _write_blocks(packages, "bulk.mjs")
    ask = """
try { await import("./bulk.mjs"); console.log('"began"'); } catch (error) { console.log(JSON.stringify(error.name)); }
"""
    assert _node(packages, "alone.mjs", ask, CHAOS_URL="http://127.0.0.1:9") == "OFREPApiFetchError"


@pytest.mark.needs("node")
def test_the_pages_example_in_node_meets_what_python_meets(short_dir: Path) -> None:
    """The file that the page prints, with no package at all."""
    _write_blocks(short_dir, "flags.mjs")
    ask = """
import { start, runTool } from "./flags.mjs";
const realTool = async (amount) => ({ amount });
const told = [];
const flags = await start(["tenfold", "toolTimeout"], { capability: "refund" });
const one = async () => {
  try { return (await runTool(flags, realTool, [5], { mission: "m1", limitMs: 200 })).amount; }
  catch (error) { return error.name; }
};
const url = process.env.CHAOS_URL;
const order = (path, token) => fetch(url + path, { method: "POST", headers: { authorization: `Bearer ${token}` } });
const settle = () => new Promise((done) => setTimeout(done, 150));
const { LEAD, KILL } = process.env;
await order("/enable/toolError", LEAD); await settle(); // another tool's
told.push(await one());
await order("/enable/tenfold", LEAD); await settle(); told.push(await one());
await order("/disable/tenfold", LEAD); await order("/enable/toolTimeout", LEAD); await settle(); told.push(await one());
await order("/disable/toolTimeout", LEAD); await order("/kill/refund", KILL); await settle(); told.push(await one());
await order("/restore/refund", KILL); await settle(); told.push(await one());
try { await start(["tooltimeout"]); } catch (error) { told.push(error.message); }
console.log(JSON.stringify(told));
flags.stop();
"""
    with lab(short_dir) as server:
        told = _node(short_dir, "ask.mjs", ask, CHAOS_URL=server.url, LEAD=TOKENS["lead"], KILL=TOKENS["kill"])
        met = [line for line in server.lines("flag_met") if line["flag"] == "tenfold"]
    assert told[:5] == [5, 50, "TimeoutError", "Killed", 5]
    assert "Did you mean 'toolTimeout'?" in told[5]
    assert [line["n"] for line in met] == [1]


@pytest.mark.needs("node")
def test_the_pages_example_is_killed_where_it_starts_without_its_server(short_dir: Path) -> None:
    _write_blocks(short_dir, "flags.mjs")
    ask = """
import { start, runTool } from "./flags.mjs";
const flags = await start(["toolError"], { capability: "refund" });
try { await runTool(flags, async () => 1, []); console.log('"ran"'); } catch (error) { console.log(JSON.stringify(error.name)); }
flags.stop();
"""
    assert _node(short_dir, "ask.mjs", ask, CHAOS_URL="http://127.0.0.1:9") == "Killed"


def _by_the_next_poll(polls: list[list[Any]], before: int, after: int) -> None:
    """One answer tells of a change, and at most one that was under way when the change was made does not."""
    told = [status for _, status, _ in polls]
    assert told[before:].count(200) == 1
    assert 200 in told[before:after] or 200 in told[after : after + 2]


def _write_blocks(folder: Path, *names: str) -> None:
    """The files that the page prints."""
    for name in names:
        (block,) = re.findall(rf"```js\n(// {re.escape(name)}\n.*?)```", PAGE.read_text("utf-8"), re.S)
        (folder / name).write_text(block)


def _node(folder: Path, name: str, program: str, *words: str, **env: str) -> Any:
    (folder / name).write_text(program)
    node = find_program("node")
    assert node is not None
    ran = subprocess.run(
        [node, name, *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
