"""OpenFeature's own SDKs, in Python and Node, read the flag server as any OFREP server."""

import json
import re
import shutil
import signal
import subprocess
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
PACKAGES = ["@openfeature/server-sdk@1.23", "@openfeature/ofrep-provider@0.1", "@openfeature/ofrep-core@0.1"]
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


@pytest.mark.needs("node")
def test_the_pages_example_in_node_meets_what_python_meets(short_dir: Path) -> None:
    """The file that the page prints, with no package at all."""
    (block,) = re.findall(r"```js\n(// flags\.mjs\n.*?)```", PAGE.read_text("utf-8"), re.S)
    (short_dir / "flags.mjs").write_text(block)
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
    (block,) = re.findall(r"```js\n(// flags\.mjs\n.*?)```", PAGE.read_text("utf-8"), re.S)
    (short_dir / "flags.mjs").write_text(block)
    ask = """
import { start, runTool } from "./flags.mjs";
const flags = await start(["toolError"], { capability: "refund" });
try { await runTool(flags, async () => 1, []); console.log('"ran"'); } catch (error) { console.log(JSON.stringify(error.name)); }
flags.stop();
"""
    assert _node(short_dir, "ask.mjs", ask, CHAOS_URL="http://127.0.0.1:9") == "Killed"


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
