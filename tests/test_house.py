"""The house keeps its own rules: rooms, names, sizes, events, pages."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from drillmaster import strict
from tools import imports, pages, reference

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
        "proxy/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from drillmaster.proxy.b import B",
        "proxy/b.py": "from drillmaster.proxy.a import A",
        "reports/html.py": "page = resources.files(__package__).joinpath('page').read_text()",
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


# A file that does one thing and does not get clearer in two. Entries go when the file shrinks.
LONG_WITH_A_REASON = {
    "src/drillmaster/proxy/exchange.py": "one exchange from head to end, on both sides",
}


def test_a_file_past_600_lines_gives_its_reason() -> None:
    files = (p for room in ("src", "tools", "tests", "bench") for p in (ROOT / room).rglob("*.py"))
    long = {str(p.relative_to(ROOT)) for p in files if len(p.read_text().splitlines()) > 600}
    assert long - set(LONG_WITH_A_REASON) == set(), "split it, or say here why it is one thing"
    assert set(LONG_WITH_A_REASON) - long == set(), "it has shrunk: its reason goes"


EXEMPTION = re.compile(r"# (?:noqa: [A-Z0-9, ]*[0-9]|type: ignore\[[\w, -]+\]|fmt: \w+)(.*)")


def test_an_exemption_gives_its_reason_on_the_line() -> None:
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for room in ("src", "tools")
        for path in (ROOT / room).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := EXEMPTION.search(line)) and not re.match(r"\s*[#-] *\w", match[1])
    ]
    assert bare == []


def test_a_program_that_a_test_needs_is_installed_in_ci() -> None:
    installed = dict(pair.split(":") for pair in re.search(r'wanted="(.*)"', (ROOT / ".ci/run").read_text())[1].split())  # type: ignore[index]
    needed = {
        program
        for path in (ROOT / "tests").rglob("*.py")
        for arguments in re.findall(r"mark\.needs\(([^)]*)\)", path.read_text())
        for program in re.findall(r"[\"']([\w.-]+)[\"']", arguments)
    }
    assert needed - {"program"} <= set(installed)


def names_of_extra(extra: str) -> set[str]:
    """List the distributions that installing drillmaster with this extra brings, by their normal names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = {"": project["dependencies"], **project["optional-dependencies"]}
    found: set[tuple[str, str]] = set()
    left = [("drillmaster", ""), ("drillmaster", extra)]
    while left:
        name, one = left.pop()
        if (name, one) in found:
            continue
        found.add((name, one))
        try:
            needs = own[one] if name == "drillmaster" else importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # for another platform
            continue
        for need in needs:
            if name != "drillmaster" and "extra ==" in need and not (one and re.search(rf"extra == .{one}\b", need)):
                continue
            other, extras = re.match(r"([\w.-]+)(?:\[([^\]]*)\])?", need).groups()  # type: ignore[union-attr]  # PEP 508
            left += [(normal(other), each.strip()) for each in ("", *(extras or "").split(","))]
    return {name for name, _ in found}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(("extra", "room"), [("test", "tests"), ("e2e", "tests/e2e")])
def test_a_library_that_a_test_imports_comes_with_its_extra(extra: str, room: str) -> None:
    of = importlib.metadata.packages_distributions()
    brought = names_of_extra(extra)
    imports = re.compile(r"^ *(?:from|import) (\w+)|importorskip\(\"(\w+)", re.MULTILINE)
    missing = {
        (library, str(path.relative_to(ROOT)))
        for path in (ROOT / room).rglob("*.py")
        if extra == "e2e" or "e2e" not in path.parts
        for library in map("".join, imports.findall(path.read_text()))
        if library in of and not brought & {normal(name) for name in of[library]}
    }
    assert missing == set()


def documented_events(*files: str) -> set[str]:
    """Read from docs/reference/events.md the events of the files named, or of all."""
    text = (ROOT / "docs/reference/events.md").read_text()
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    kept = [s for s in sections if not files or any(s.startswith(f"`{file}`") for file in files)]
    named: list[str] = []
    for section in kept:
        first_cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
        # A section without a table names its one event at the start of a line.
        cells = first_cells or re.findall(r"^`[a-z_]+`(?=: )", section, re.M)
        named += [name for cell in cells for name in re.findall(r"`([a-z_]+)`", cell) if name not in ("start", "end")]
    return set(named)


def strings_in_source() -> dict[str, set[str]]:
    """List every text constant in the product's code with the files it stands in, docstrings included."""
    found: dict[str, set[str]] = {}
    for name, path in imports.modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.setdefault(node.value, set()).add(name)
    return found


def written_events() -> set[str]:
    """List the first arguments of all calls that write a line of evidence."""
    found = set()
    for path in imports.modules().values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called.lstrip("_") in {"write", "mark", "record", "say_event"} and isinstance(
                    node.args[0].value, str
                ):
                    found.add(node.args[0].value)
    return {text for text in found if re.fullmatch(r"[a-z]+(_[a-z]+)*", text)}


def test_every_event_of_ours_on_the_page_is_written_by_somebody() -> None:
    ours = documented_events(
        "events/conductor.jsonl", "events/proxy.jsonl", "events/traffic.jsonl", "events/notes.jsonl"
    )
    assert len(ours) > 15
    assert ours <= set(strings_in_source())


def test_no_event_is_written_that_the_page_does_not_name() -> None:
    assert written_events() - documented_events() == set()


def verbs() -> list[tuple[str, click.Command]]:
    return list(reference.commands())


@pytest.mark.parametrize(("words", "command"), verbs(), ids=[words for words, _ in verbs()])
def test_a_verb_says_what_it_does_and_gives_an_example(words: str, command: click.Command) -> None:
    text = command.help or ""
    assert text.strip(), f"{words} has no help"
    if not isinstance(command, click.Group):
        assert re.search(r"^\s*(\$ )?" + re.escape(words) + r"\b", text, re.M), f"{words} shows no example of itself"
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{words} {parameter.opts[0]} has no help"


@pytest.mark.parametrize(("words", "command"), verbs(), ids=[words for words, _ in verbs()])
def test_help_is_shown_without_a_network_or_a_model_client(words: str, command: click.Command) -> None:
    result = CliRunner().invoke(command, ["--help"], prog_name=words)
    assert result.exit_code == 0, result.output


CATALOGUED = [
    (catalogue, tag, module) for catalogue in reference.CATALOGUES for tag, module in reference.entries(catalogue)
]
PARTS = {
    "faults": ("Breaks:", "Looks like:", "Cannot show:"),  # the first line says what happens
    "gates": ("Happens:", "Breaks:", "Looks like:", "Cannot show:"),
    "dialects": (),  # words of an API, no result
    "guards": ("Happens:", "Breaks:", "Looks like:", "Cannot show:"),
}


@pytest.mark.parametrize(("catalogue", "tag", "module"), CATALOGUED, ids=[f"{c}/{t}" for c, t, _ in CATALOGUED])
def test_an_entry_is_its_own_reference_page(catalogue: str, tag: str, module: ModuleType) -> None:
    text = reference.page_text(module)
    assert len(text.splitlines()[0]) > 20
    missing = [part for part in PARTS[catalogue] if part not in text]
    assert not missing, f"{catalogue}/{tag} does not say: {missing}"


def test_the_readme_names_its_two_commands_in_both_forms() -> None:
    text = (ROOT / "README.md").read_text()
    for line in ("make demo", "make test", ".venv/bin/drillmaster demo", '.venv/bin/python -m pytest -m "not e2e"'):
        assert line in text


@pytest.mark.parametrize("shelf", ["howto", "reference"])
def test_the_readme_reads_on_to_every_page_of_a_shelf_once(shelf: str) -> None:
    text = (ROOT / "README.md").read_text().partition("\n## Read on\n")[2]
    named = re.findall(rf"\(docs/{shelf}/([\w-]+\.md)\)", text)
    assert sorted(named) == sorted(page.name for page in (ROOT / "docs" / shelf).glob("*.md"))


def test_decisions_are_listed_in_their_order() -> None:
    folder = ROOT / "docs/decisions"
    named = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())
    assert named == sorted(page.name for page in folder.glob("0*.md"))


def test_pages_lead_somewhere_and_name_commands_that_exist() -> None:
    assert pages.findings() == []


def test_generated_pages_are_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a](gone.md)", "leads to no file"),
        ("[a](#gone)\n# Here", "leads to no heading"),
        ("```\ndrillmaster nosuch\n```", "names no verb"),
        ("```\n$ drillmaster standin provider --nosuch 3\n```", "has no option --nosuch"),
        ("```\ndrillmaster standin \\\n  provider --nosuch\n```", "has no option --nosuch"),
        ("run `drillmaster nosuch`", "names no verb"),
        ("`drillmaster standin\n--nosuch`", "has no option --nosuch"),
        ("`drillmaster lease RUN`", "names no verb"),
        ("run `make nosuch`", "make nosuch is no target"),
        ("run `make no-such`", "make no-such is no target"),
        ("in /wo" + "rk/main/src", "does not belong"),
    ],
)
def test_a_page_that_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    known = dict(reference.commands())
    found = [
        *pages.of_links(page, text),
        *pages.of_commands(page, text, known),
        *pages.of_make(page, text, {"demo"}),
        *pages.of_words("page.md", text),
    ]
    assert [said in line for line in found] == [True]


def test_a_page_that_is_right_is_left_alone(tmp_path: Path) -> None:
    text = (
        "# Two words\n[a](#two-words) [b](https://example.org/x)\n```\nmake demo  # says `gone`\nls gone.md\n```\n"
        "`drillmaster gate NAME --json`, `drillmaster VERB --help`, `drillmaster matrix RUN --json`"
    )
    (tmp_path / "page.md").write_text(text)
    page, known = tmp_path / "page.md", dict(reference.commands())
    assert not [
        *pages.of_links(page, text),
        *pages.of_commands(page, text, known),
        *pages.of_make(page, text, {"demo"}),
    ]


YAML = [
    (page, block)
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for block in re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text("utf-8"), re.S | re.M)
]


@pytest.mark.parametrize(("page", "block"), YAML, ids=[f"{page.stem}-{i}" for i, (page, _) in enumerate(YAML)])
def test_yaml_on_a_page_is_yaml_that_our_own_loader_takes(page: Path, block: str) -> None:
    assert isinstance(strict.load(block.encode(), place=page.name, fmt="yaml"), dict)


def test_what_lies_under_e2e_is_marked_so() -> None:
    """The hermetic run does not even import those modules: a test there without the mark would never run in it."""
    modules = sorted((Path(__file__).parent / "e2e").glob("test_*.py"))
    unmarked = [one.name for one in modules if "pytest.mark.e2e" not in one.read_text(encoding="utf-8")]
    assert modules and unmarked == []
