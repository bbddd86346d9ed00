"""The page's helper in Node makes the keys of the table, and refuses what the table refuses."""

import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from tests.conftest import find_program

pytestmark = [pytest.mark.e2e, pytest.mark.needs("node")]

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "make-cache-keys.md"
TABLE = files("drillmaster.rules").joinpath("_cases/cache_keys.json").read_text(encoding="utf-8")
ASK = """
import { readFileSync } from "node:fs";
import { cacheKey } from "./cacheKey.mjs";
const table = JSON.parse(readFileSync("table.json", "utf8"));
const types = Object.fromEntries(table.types.map((one) => [one.name, one]));
const told = table.cases.map(({ type, tenant, fields }) => {
  try {
    return cacheKey(types[type], tenant, fields, table.secrets[types[type].keyed]);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return "";
  }
});
console.log(JSON.stringify(told));
"""


def test_node_makes_the_same_keys(tmp_path: Path) -> None:
    (block,) = re.findall(r"```js\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    (tmp_path / "cacheKey.mjs").write_text(block)
    (tmp_path / "table.json").write_text(TABLE)
    (tmp_path / "ask.mjs").write_text(ASK)
    node = find_program("node")
    assert node is not None
    ran = subprocess.run([node, "ask.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 0, ran.stderr
    cases = json.loads(TABLE)["cases"]
    assert dict(zip([one["name"] for one in cases], json.loads(ran.stdout), strict=True)) == {
        one["name"]: one["key"] for one in cases
    }
