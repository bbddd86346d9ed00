"""The SARIF form of verdicts against the published types of SARIF 2.1.0 (npm's @types/sarif, made from the schema)."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from drillmaster.reports import form
from tests.gates.test_matrix_golden import CASES, verdict_of

pytestmark = [pytest.mark.e2e, pytest.mark.needs("node", "npm"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sarif")
    npm = [shutil.which("npm") or "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(
        [*npm, "@types/sarif@2.1.7", "typescript@5"], cwd=folder, capture_output=True, timeout=170, check=False
    )
    if done.returncode:
        pytest.skip("needs npm's @types/sarif and typescript packages")
    return folder


def fits(folder: Path, documents: list[str]) -> tuple[bool, str]:
    lines = [f"const log{number}: Log = {text};" for number, text in enumerate(documents)]
    (folder / "check.ts").write_text('import type { Log } from "sarif";\n' + "\n".join(lines) + "\nexport {};\n")
    tsc = [str(folder / "node_modules/.bin/tsc"), "--noEmit", "--strict", "--module", "esnext"]
    ran = subprocess.run(
        [*tsc, "--moduleResolution", "bundler", "check.ts"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.returncode == 0, ran.stdout


def test_each_status_of_a_verdict_fits(typed: Path) -> None:
    texts = [form("sarif").render(verdict_of(name)) for name in CASES]
    assert len(texts) == 3
    good, said = fits(typed, texts)
    assert good, said


@pytest.mark.parametrize(
    ("key", "value"), [("version", "2.0.0"), ("runs", [{"results": []}]), ("runs", [{"tool": {"driver": {}}}])]
)
def test_what_is_no_sarif_is_told(typed: Path, key: str, value: object) -> None:
    said = json.loads(form("sarif").render(verdict_of("pass")))
    assert not fits(typed, [json.dumps({**said, key: value})])[0]
