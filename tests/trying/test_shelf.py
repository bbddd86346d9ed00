"""The index of faults that ships."""

import subprocess
import sys

import msgspec
import pytest

from drillmaster import faults
from drillmaster.errors import Problem
from drillmaster.trying.shelf import Index, find, near_misses, read
from tools import reference_faults


def test_every_fault_is_in_the_index_as_its_entry_says() -> None:
    index = read()
    assert tuple(index.faults) == faults.names()
    for tag, entry in index.faults.items():
        kind = faults.load(tag)
        said = (entry.group, entry.scope, entry.proof, entry.needs, entry.seen)
        assert said == (kind.group, kind.scope, kind.proof, kind.needs, kind.seen), f"{tag}: make reference"
        assert entry.line == (kind.__doc__ or "").splitlines()[0].strip()
        assert entry.page
        assert entry.captured, f"{tag}: its bytes are in no tests/golden/faults/{tag}.txt, or make reference is due"


def test_the_index_knows_what_sdks_did_and_when() -> None:
    index = read()
    assert index.sdks_measured and index.clients
    assert any(cell.client == "openai" and cell.stream for cell in index.faults["clean-end"].sdks)


def test_listing_imports_no_entry_and_no_network() -> None:
    code = (
        "import sys; from drillmaster.trying.shelf import find; assert len(find()) > 40;"
        "assert [m for m in sys.modules if m.startswith('drillmaster.faults.') and '._' not in m] == [];"
        "assert not {'asyncio', 'socket', 'ssl'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_faults_come_by_group_and_words_choose_among_them() -> None:
    groups = [entry.group for _, entry in find()]
    assert sorted(set(groups), key=groups.index)[:2] == ["connection", "time"]
    assert all(groups[i] == groups[i - 1] or groups[i] not in groups[:i] for i in range(1, len(groups)))
    assert {tag for tag, _ in find(["FIN", "stream"])} >= {"cut-stream"}
    assert {entry.scope for _, entry in find(scope="port")} == {"port"}
    assert {"cut-body", "bad-gzip"} <= {tag for tag, _ in find(seen="broken")}
    assert {tag for tag, _ in find(["retry-after"])} >= {
        "rate-limit"
    }  # by the name of a parameter, whichever line is in it
    assert find(["retry-after"]) == find(["retry_after"])
    assert find(["no such thing at all"]) == ()


@pytest.mark.parametrize(("group", "scope"), [("strem", None), (None, "ports"), ("", None)])
def test_a_group_or_scope_that_nothing_has_is_a_problem(group: str | None, scope: str | None) -> None:
    with pytest.raises(Problem, match="wanted one of"):
        find(group=group, scope=scope)


@pytest.mark.parametrize(
    ("word", "meant"), [("hnag", "hang"), ("cut_body", "cut-body"), ("gzip", "bad-gzip"), ("429", "rate-limit")]
)
def test_a_tag_that_is_none_gets_those_that_may_have_been_meant(word: str, meant: str) -> None:
    assert meant in near_misses(word)
    assert near_misses("qqqqqqqq") == ()


def test_the_page_of_sdks_is_read_as_sdk_check_writes_it() -> None:
    page = (
        "# What\n\nMeasured on 2026-12-01 by `drillmaster sdk-check`, with the\nlimit.\n\n"
        "| client | version | connect / read limit by default | retries |\n|---|---|---|---|\n| a | 1.0 | 5 s / 600 s | 2 |\n\n"
        "## Whole answers: python\n\n| fault | a | b |\n|---|---|---|\n"
        "| cut-body how=fin | E **NOT CAUGHT** / 1 / 0.1 s | not met / 1 / 0.2 s |\n\n"
        "## Streamed answers: python\n\n| fault | a |\n|---|---|\n| cut-body how=fin | a \\| &lt;b / 1 / 0.1 s |\n\n"
        "## Worst case before a user sees anything\n\n| client | worst | under |\n|---|---|---|\n| a | 3 s | stall |\n"
    )
    made = msgspec.json.decode(reference_faults.index("\n## cut-body\n", page), type=Index)
    assert (made.sdks_measured, made.clients) == ("2026-12-01", {"a": "1.0"})
    assert [(cell.client, cell.stream, cell.said) for cell in made.faults["cut-body"].sdks] == [
        ("a", False, "E NOT CAUGHT / 1 / 0.1 s"),
        ("a", True, "a | <b / 1 / 0.1 s"),
    ]
    assert made.faults["cut-body"].page and not made.faults["reset"].page
