"""The house keeps its own rules: rooms, names, sizes, events, pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import imports

ROOT = Path(__file__).resolve().parent.parent


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "drillmaster" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"verdict.py": "from drillmaster.proxy import serve", "proxy.py": ""}, "tier 1) imports drillmaster.proxy"),
        ({"verdict.py": "def f():\n    import drillmaster.run", "run.py": ""}, "tier 1) imports drillmaster.run"),
        (
            {"faults/a.py": "from drillmaster.faults import b", "faults/__init__.py": "", "faults/b.py": ""},
            "another entry",
        ),
        ({"faults/__init__.py": "from . import b", "faults/b.py": ""}, "another entry"),
        ({"judge.py": "import asyncio"}, "tier 3 imports asyncio"),
        ({"stats.py": "from concurrent.futures import Future"}, "tier 1 imports concurrent.futures"),
        ({"policy.py": "open('x')"}, "calls open()"),
        ({"reports/html.py": "from pathlib import Path\nPath('x').read_text()"}, "calls read_text()"),
        ({"helpers.py": ""}, "is in no tier"),
        ({"__init__.py": "from drillmaster.timeline import mark", "timeline.py": ""}, "importing drillmaster itself"),
        ({"evidence.py": "import drillmaster.stats", "stats.py": "import drillmaster.evidence"}, "in a circle"),
    ],
)
def test_an_import_that_breaks_a_rule_is_named(tmp_path: Path, files: dict[str, str], said: str) -> None:
    found = imports.findings(write(tmp_path, files))
    assert any(said in line for line in found), found


def test_rooms_that_keep_the_rules_are_left_alone(tmp_path: Path) -> None:
    files = {
        "__init__.py": "def __getattr__(name):\n    from drillmaster.timeline import mark\n    return mark",
        "timeline.py": "import os\nfrom drillmaster.evidence import Row\nopen('x')",
        "evidence.py": "import msgspec",
        "outcomes.py": "from drillmaster.evidence import Row",  # same tier, no circle
        "faults/__init__.py": "",
        "faults/hang.py": "from drillmaster.faults import Fault",
    }
    assert imports.findings(write(tmp_path, files)) == []


def test_every_room_keeps_to_its_tier() -> None:
    assert imports.findings() == []


def loaded_after(statements: str) -> set[str]:
    """Import in a fresh interpreter and list what that brought in."""
    code = f"import sys; before = set(sys.modules)\n{statements}\nprint(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


HEAVY = {
    "asyncio",
    "click",
    "dataclasses",
    "http.client",
    "importlib.metadata",
    "jinja2",
    "ruamel",
    "socket",
    "ssl",
    "subprocess",
}


def test_a_worker_that_only_marks_pays_for_nothing_else() -> None:
    assert {name for name in loaded_after("import drillmaster") if name.startswith("drillmaster")} == {"drillmaster"}
    assert not loaded_after("import drillmaster") & HEAVY
    assert not loaded_after("import drillmaster.timeline") & HEAVY


def test_what_decides_loads_no_network_and_no_processes() -> None:
    pure = [name for name in imports.modules() if "." in name and (imports.tier(name) or 0) < imports.PURE_TIERS]
    brought_in = loaded_after("\n".join(f"import {name}" for name in pure))
    assert not brought_in & {"asyncio", "http.client", "multiprocessing", "socket", "sqlite3", "ssl", "subprocess"}


LONG_WITH_A_REASON: dict[str, str] = {}


def test_a_file_past_600_lines_gives_its_reason() -> None:
    files = (p for room in ("src", "tools", "tests", "bench") for p in (ROOT / room).rglob("*.py"))
    long = {str(p.relative_to(ROOT)) for p in files if len(p.read_text().splitlines()) > 600}
    assert long == set(LONG_WITH_A_REASON)


def test_a_program_that_a_test_needs_is_installed_in_ci() -> None:
    installed = dict(pair.split(":") for pair in re.search(r'wanted="(.*)"', (ROOT / ".ci/run").read_text())[1].split())  # type: ignore[index]
    needed = {
        program
        for path in (ROOT / "tests").rglob("*.py")
        for arguments in re.findall(r"mark\.needs\(([^)]*)\)", path.read_text())
        for program in re.findall(r"[\"']([\w.-]+)[\"']", arguments)
    }
    assert needed - {"program"} <= set(installed)
