"""The oracle gate: who wrote the bit that decides, told from a change alone."""

import time

import msgspec
import pytest

from drillmaster.changes import FileChange, Lane
from drillmaster.errors import Problem
from drillmaster.gates._cases.oracle import (
    BEA,
    FREE,
    GOOD,
    HUMAN,
    LIMITS,
    NOW_NS,
    OWNERS,
    PRODUCT,
    RECORD,
    TEST,
    UNKNOWN,
    changed,
    commit,
    fixture,
    vouched,
    with_files,
)
from drillmaster.gates._oracle_evidence import OracleChange, is_told_bot, self_file
from drillmaster.gates.oracle import ARTICLE, Oracle
from drillmaster.judge import decode_gate, judge, load_policy
from drillmaster.verdict import Verdict

NEW_TEST = b"from pay import charge\n\ndef test_new():\n    assert charge(9) == 9\n"
ORACLE = changed("contracts/pay.openapi.json", b"{}", b"[]")


def verdict(evidence: OracleChange, gate: Oracle = LIMITS) -> Verdict:
    return judge(
        gate,
        evidence,
        name="oracle",
        subject="change",
        pin=None,
        policy_digest="",
        evidence_digest="",
        evidence_end_ns=NOW_NS,
        counts={},
        now_ns=NOW_NS,
        version="0",
    )


def exits(evidence: OracleChange, gate: Oracle = ARTICLE) -> int:
    """The article's exit code."""
    return gate.article_exit(verdict(evidence, gate))


def failed(evidence: OracleChange, gate: Oracle = LIMITS) -> set[str]:
    return {check.id for check in verdict(evidence, gate).checks if check.status != "pass"}


NOBODYS = Lane(name="unknown", by="nobody signed it")


@pytest.mark.parametrize("lane", [FREE, UNKNOWN, NOBODYS], ids=lambda lane: lane.name)
@pytest.mark.parametrize(
    "path",
    [
        "contracts/pay.openapi.json",
        "fixtures/http/charge-409.json",
        "tests/oracle/test_a.py",
        "fixtures/http/é.json",
        'fixtures/http/a "quoted"\n.json',
        "services/x/contracts/a.openapi.json",
    ],
)
def test_a_lane_that_is_nobodys_touches_no_oracle(lane: Lane, path: str) -> None:
    for one in (changed(path, None, TEST), changed(path, TEST, TEST + b"\n"), changed(path, TEST, None)):
        evidence = with_files(one, lane=lane)
        assert "lane-oracle" in failed(evidence)
        assert exits(evidence) == 12
        assert ARTICLE.closing(evidence, verdict(evidence, ARTICLE))[1] == "refuse: free lane touched an oracle file"


@pytest.mark.parametrize(
    "path",
    [
        "src/a.js",
        "src/a.tsx",
        "src/a.rs",
        "src/A.java",
        "db/1.sql",
        "Dockerfile",
        "Makefile",
        "src/a.py",
        "src/a.go",
        "a.toml",
        "prompts/p.j2",
    ],
)
def test_an_oracle_beside_product_of_any_language_is_two_changes(path: str) -> None:
    evidence = with_files(ORACLE, changed(path, b"a", b"b"))
    assert {"mixed", "mixed-commit"} <= failed(evidence)
    assert exits(evidence) == 12
    assert ARTICLE.closing(evidence, verdict(evidence, ARTICLE))[1] == "refuse: mixed oracle and product authorship"


def test_one_commit_each_is_still_one_change() -> None:
    apart = with_files(ORACLE, PRODUCT, commits=(commit("a", (ORACLE,)), commit("b", (PRODUCT,))))
    assert "mixed" in failed(apart)
    assert "mixed-commit" not in failed(apart)


def test_what_a_later_commit_undid_was_touched() -> None:
    undone = with_files(PRODUCT, commits=(commit("a", (ORACLE,)), commit("b", (ORACLE, PRODUCT))))
    assert {"mixed", "mixed-commit"} <= failed(undone)
    assert "lane-oracle" in failed(
        msgspec.structs.replace(undone, diff=msgspec.structs.replace(undone.diff, lane=FREE))
    )


@pytest.mark.parametrize(
    "path",
    [
        "x.test.js",
        "src/p_test.go",
        "spec/p_spec.py",
        "tests/test_a.py",
        "a/PayTest.java",
        "src/pay.spec.ts",
        "Tests/Scratch/test_a.py",
        "tests/scratch_more/test_a.py",
        "tests/data.json",
    ],
)
def test_an_agent_writes_tests_under_scratch_alone(path: str) -> None:
    content = b"" if not path.endswith(".py") else NEW_TEST
    evidence = with_files(changed(path, None, content), PRODUCT, lane=FREE)
    assert "free-tests" in failed(evidence)
    assert exits(evidence) == 12
    assert ARTICLE.closing(evidence, verdict(evidence, ARTICLE))[1].startswith("refuse: free lane wrote tests ['")


@pytest.mark.parametrize("path", ["conftest.py", "tests/scratch/conftest.py", "tests/oracle/conftest.py"])
def test_an_agent_writes_no_conftest_anywhere(path: str) -> None:
    assert exits(with_files(changed(path, None, b"x = 1\n"), lane=FREE)) == 12


@pytest.mark.parametrize(
    "path",
    [
        ".oracle-owners",
        "oracle_gate.py",
        ".github/workflows/oracle-gate.yml",
        ".github/CODEOWNERS",
        ".drillmaster/oracle-policy.yaml",
        ".pre-commit-config.yaml",
        ".husky/pre-commit",
        ".gitlab-ci.yml",
        "Jenkinsfile",
        ".gitattributes",
        ".GitHub/Workflows/x.yml",
        "tools/oracle_gate.py",
    ],
)
def test_what_judges_the_change_is_an_oracle_itself(path: str) -> None:
    for one in (changed(path, None, b"x"), changed(path, b"x", None)):
        assert exits(with_files(one, lane=FREE)) == 12
        assert "mixed" in failed(with_files(one, PRODUCT))
        assert "self-files" in failed(with_files(one, lane=BEA))
        assert "self-files" not in failed(with_files(one))  # its owner's own change


@pytest.mark.parametrize(
    "path",
    [
        "src/workflows/pay.py",
        ".github/ISSUE_TEMPLATE.md",
        "src/conftest_reader.py",
        "docs/oracle-owners.md",
        "oracle_gates.py",
    ],
)
def test_what_only_looks_so_is_no_file_of_the_gate(path: str) -> None:
    assert not self_file(path)


@pytest.mark.parametrize(
    "evidence",
    [
        with_files(PRODUCT, lane=FREE),
        with_files(changed("src/testimonials.py", b"a", b"b"), lane=FREE),
        with_files(
            PRODUCT, changed("tests/scratch/test_sketch.py", None, b"def test_a():\n    assert True\n"), lane=FREE
        ),
        with_files(changed("docs/testing.md", b"a", b"b"), changed("README.md", b"a", b"b"), lane=FREE),
        with_files(PRODUCT, lane=UNKNOWN),
        with_files(PRODUCT, changed("tests/test_new.py", None, NEW_TEST)),
        with_files(ORACLE),
        with_files(ORACLE, changed("docs/api.md", b"a", b"b")),
        with_files(changed("pyproject.toml", b"[project]\n", b"[project]\nname = 'a'\n"), lane=FREE),
        with_files(changed("src/__snapshots__/a.snap", b"1", b"2")),
    ],
)
def test_an_honest_change_passes(evidence: OracleChange) -> None:
    said = verdict(evidence, ARTICLE)
    assert [(check.id, check.why) for check in said.checks if check.status != "pass"] == []
    assert ARTICLE.article_exit(said) == 0


@pytest.mark.parametrize(
    ("more", "check"),
    [
        ({"owners": None}, "owners"),
        ({"owners": b""}, "owners"),
        ({"owners": OWNERS.replace(b"\t", b"    ")}, "owners"),
        ({"owners": OWNERS.replace(b"payments-oncall", b"")}, "owners"),
        ({"owners": OWNERS.replace(b"qa-lead", b"renovate[bot]")}, "owner-known"),
        ({"owners": OWNERS.replace(b"qa-lead", b"helper")}, "owner-known"),
        ({"owners": OWNERS.replace(b"qa-lead", b"who")}, "owner-known"),
        ({"owners": b"gone/*\tqa-lead\tgit-pin\n"}, "examined"),
        ({"diff": {"files": (), "commits": ()}}, "change"),
        ({"diff": {"defects": ("a shallow clone",)}}, "change"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_its_remedy(more: dict[str, object], check: str) -> None:
    said = verdict(with_files(PRODUCT, **more))  # type: ignore[arg-type]  # fields by name
    assert said.status == "refused"
    missed = next(one for one in said.checks if one.id == check)
    assert missed.status == "refused"
    assert missed.remedy
    assert ARTICLE.article_exit(verdict(with_files(PRODUCT, **more), ARTICLE)) == 2  # type: ignore[arg-type]  # as above


def test_an_owner_answers_by_signature_and_digest() -> None:
    assert failed(vouched(RECORD)) == set()
    assert failed(with_files(RECORD)) == {"attested"}
    assert failed(vouched(RECORD, signer="bea@example.com")) == {"attested"}
    assert failed(vouched(RECORD, signer=None)) == {"attested"}
    said = next(one for one in verdict(with_files(RECORD)).checks if one.id == "attested")
    assert "--trailer 'oracle-digest: sha256:" in said.remedy


def test_a_digest_of_other_content_is_no_word() -> None:
    trailers = vouched(RECORD).diff.commits[0].trailers
    other = changed(RECORD.path, None, fixture(text="other"))
    assert failed(with_files(other, commits=(commit("b", (other,), trailers=trailers),))) == {"attested"}


def test_a_trailer_alone_is_enough_where_the_policy_says_so() -> None:
    gate = msgspec.structs.replace(LIMITS, attest="trailer")
    trailers = (("Oracle-Owner", "Ada <ada@example.com>"),)
    assert failed(with_files(RECORD, commits=(commit("b", (RECORD,), trailers=trailers),)), gate) == set()
    assert failed(with_files(RECORD), gate) == {"attested"}


@pytest.mark.parametrize(
    ("link", "bad"),
    [
        (changed("fixtures/http/latest.json", None, b"a.json", "120000"), True),
        (changed("fixtures/http/notes", None, b"../../src", "120000"), True),  # beside an oracle
        (changed("fixtures/http", None, b"../elsewhere", "120000"), True),
        (changed("Fixtures", None, b"x", "120000"), True),
        (changed("data", None, b"fixtures/http", "120000"), True),  # leads to them
        (changed("src/data", None, b"../fixtures/http/a.json", "120000"), True),
        (changed("out", None, b"../../etc", "120000"), True),  # out of the repository
        (changed("out", None, b"/etc/passwd", "120000"), True),
        (changed("tests/scratch/a", None, b"../oracle", "120000"), True),
        (changed("fixtures", None, b"", "160000"), True),
        (changed("docs/latest", None, b"v2", "120000"), False),
        (changed("src/a", None, b"b", "120000"), False),
        (changed("vendor/x", None, b"", "160000"), False),
    ],
)
def test_a_link_that_could_stand_for_an_oracle_is_told(link: FileChange, bad: bool) -> None:
    assert ("link" in failed(with_files(link))) is bad


@pytest.mark.parametrize(
    "path", ["Fixtures/http/a.json", "fixtures/HTTP/a.json", "ﬁxtures/http/a.json", "fixtures/http\u200b/a.json"]
)
def test_a_path_that_reads_like_an_oracle_is_told(path: str) -> None:
    assert "disguised" in failed(with_files(changed(path, None, b"{}"), lane=FREE))


def test_an_agent_leaves_money_alone() -> None:
    assert "guarded" in failed(with_files(changed("src/payments/a.py", b"a", b"b"), lane=FREE))
    assert "guarded" in failed(with_files(changed("src/Payments/a.py", None, b"b"), lane=UNKNOWN))
    assert "guarded" not in failed(with_files(changed("src/payments/a.py", b"a", b"b")))


def test_a_weakened_test_fails_by_its_kind_and_place() -> None:
    said = verdict(with_files(changed("tests/test_pay.py", TEST, TEST.replace(b"charge(2) == 4", b"True"))))
    check = next(one for one in said.checks if one.id == "weakened.tautology")
    assert check.status == "fail"
    assert (check.cites[0].file, check.cites[0].line) == ("tests/test_pay.py", 5)


def test_a_test_in_scratch_may_be_anything() -> None:
    assert (
        failed(with_files(changed("tests/scratch/test_a.py", TEST, b"def test_a():\n    assert True\n"), lane=FREE))
        == set()
    )


def test_a_snapshot_moves_alone_and_by_a_person() -> None:
    snap = changed("src/__snapshots__/a.snap", b"1\n", b"2\n")
    assert "weakened.snapshot" in failed(with_files(snap, PRODUCT))
    assert "weakened.snapshot" in failed(with_files(snap, lane=FREE))
    assert failed(with_files(snap)) == set()
    assert failed(with_files(changed("src/__snapshots__/a.snap", b"1\n", b"1\n2\n"), PRODUCT)) == set()


def test_a_test_in_a_language_without_a_reader_is_named_and_not_refused() -> None:
    said = verdict(with_files(changed("src/p_test.go", b"a", b"b")))
    assert said.status == "pass"
    assert (
        "1 in languages that are told by name alone" in next(one for one in said.checks if one.id == "readable").title
    )


def test_a_test_that_became_a_link_is_gone() -> None:
    one = FileChange(
        path="tests/test_pay.py", how="retyped", mode_before="100644", mode_after="120000", before=TEST, after=b"x"
    )
    assert "weakened.test-removed" in failed(with_files(one))


def test_the_lines_that_scripts_grep_are_printed() -> None:
    evidence = with_files(PRODUCT, lane=FREE)
    assert ARTICLE.closing(evidence, verdict(evidence, ARTICLE)) == ("lane=free oracles=[] product=['src/pay.py']",)


@pytest.mark.parametrize(
    ("name", "bot"),
    [
        ("dependabot[bot]", True),
        ("qa-bot", True),
        ("release-agent", True),
        ("github-actions", True),
        ("copilot", True),
        ("free-lane", True),
        ("payments-oncall", False),
        ("qa-lead", False),
        ("abbot", False),
        ("@org/robotics", False),
        ("Aida <aida@example.com>", False),
    ],
)
def test_a_name_that_says_it_is_a_bot_s_is_one(name: str, bot: bool) -> None:
    assert is_told_bot(name) is bot


POLICY = """kind: policy
version: 1
source: docs/oracles.md
owner: QA
review_by: "2027-06-30"
gates:
  - gate: oracle
    scratch: [tests/scratch/]
    docs: ["docs/**", "*.md"]
    guarded: ["src/payments/**"]
    attest: digest
    codeowners: required
    fixtures: recorded
    staging_hosts: [staging.example.com]
    max_fixture_age_s: 604800
    self_owner: qa-lead
"""


def test_a_policy_is_read() -> None:
    policy, _ = load_policy(POLICY.encode(), place="p.yaml", fmt="yaml")
    assert decode_gate(policy, "oracle", place="p.yaml") == LIMITS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("scratch: [tests/scratch/]", "scratch: []"),
        ("scratch: [tests/scratch/]", "scratch: [tests/scratch]"),
        ("scratch: [tests/scratch/]", "scratch: [/]"),
        ("scratch: [tests/scratch/]", "scratch: [tests/../src/]"),
        ('docs: ["docs/**", "*.md"]', 'docs: ["**"]'),
        ("attest: digest", "attest: maybe"),
        ("    self_owner: qa-lead\n", ""),
        ("604800", "0"),
        ("604800", ".nan"),
        ("qa-lead", '""'),
        ("attest: digest", "attest: digest\n    more: 1"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(before: str, after: str) -> None:
    with pytest.raises(Problem):
        policy, _ = load_policy(POLICY.replace(before, after).encode(), place="p.yaml", fmt="yaml")
        decode_gate(policy, "oracle", place="p.yaml")


def test_five_thousand_files_take_seconds() -> None:
    files = tuple(changed(f"src/a{n}/b{n % 70}.py", b"a", b"b") for n in range(4_000))
    tests = tuple(
        changed(f"tests/t{n}/test_a{n}.py", TEST, TEST + b"    assert charge(3) == 3\n") for n in range(1_000)
    )
    begun = time.process_time()
    assert verdict(with_files(*files, *tests)).status == "pass"
    assert time.process_time() - begun < 10


def test_a_change_that_is_good_is_good() -> None:
    assert failed(GOOD) == set() and GOOD.diff.lane == HUMAN
