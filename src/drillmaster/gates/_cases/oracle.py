"""Evidence on which each check of the oracle gate goes red, and on which it is green."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.changes import Commit, Diff, FileChange, Lane, Person, Roster
from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates._oracle_evidence import OracleChange, digest_of
from drillmaster.gates.oracle import Exemption, Oracle
from drillmaster.rules.http_fixture import fixture_digest
from drillmaster.rules.weakening import KINDS
from drillmaster.verdict import Status

__all__ = ["GOOD", "LIMITS", "cases", "changed", "fixture", "with_files"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
LIMITS = Oracle(
    scratch=("tests/scratch/",),
    docs=("docs/**", "*.md"),
    guarded=("src/payments/**",),
    attest="digest",
    codeowners="required",
    fixtures="recorded",
    staging_hosts=("staging.example.com",),
    max_fixture_age_s=7 * 86_400,
    self_owner="qa-lead",
)
OWNERS = (
    b"contracts/*.openapi.json\tpayments-oncall\tgit-pin\nfixtures/http/*.json\tpayments-oncall\tstaging-record\n"
    b"tests/oracle/*.py\tqa-lead\thuman-assert\ngolden/*.json\tqa-lead\tsigned-off\n"
)
CODEOWNERS = (".github/CODEOWNERS", b"* @ada\n")
ROSTER = Roster(
    kind="roster",
    version=1,
    people=(
        Person(
            identity="ada@example.com",
            emails=("ada@example.com",),
            logins=("ada",),
            teams=("payments-oncall", "qa-lead"),
        ),
        Person(identity="bea@example.com", emails=("bea@example.com",), logins=("bea",)),
        Person(identity="helper", emails=("helper@example.com",), logins=("helper",), kind="bot", teams=("helpers",)),
    ),
)
PLAIN = (
    "change", "owners", "owner-known", "examined", "exceptions", "lane-oracle", "mixed",
    "mixed-commit", "free-tests", "guarded", "runner", "link", "disguised", "codeowners",
    "attested", "self-files", "signed-off", "recorded", "unredacted", "stale", "readable",
)  # fmt: skip  # words
HUMAN = Lane(name="human", by="signatures of ada@example.com", people=("ada@example.com",))
BEA = Lane(name="human", by="signatures of bea@example.com", people=("bea@example.com",))
FREE = Lane(name="free", by="account helper, a bot, opened it")
UNKNOWN = Lane(name="unknown", by="nobody signed it")
TEST = b"from pay import charge\n\ndef test_a():\n    assert charge(1) == 3\n    assert charge(2) == 4\n"


def changed(path: str, before: bytes | None, after: bytes | None, mode: str = "100644") -> FileChange:
    """One path with both contents; None: not there."""
    sides = [("" if one is None else hashlib.sha256(one).hexdigest()[:40]) for one in (before, after)]
    how: Any = "added" if before is None else "deleted" if after is None else "modified"
    return FileChange(
        path=path,
        how=how,
        mode_before="" if before is None else mode,
        mode_after="" if after is None else mode,
        sha_before=sides[0],
        sha_after=sides[1],
        before=before,
        after=after,
    )


def commit(sha: str, files: tuple[FileChange, ...], **more: Any) -> Commit:
    bare = tuple(msgspec.structs.replace(one, before=None, after=None) for one in files)
    author = "Ada <ada@example.com>"
    return Commit(sha=sha * 40, author=author, committer=author, files=bare, signer="ada@example.com", **more)


def with_files(
    *files: FileChange, lane: Lane = HUMAN, commits: tuple[Commit, ...] | None = None, **more: Any
) -> OracleChange:
    """A change of these files in one commit, or in the commits given."""
    made = commits if commits is not None else (commit("a", files),)
    diff = Diff(base="0" * 40, head="f" * 40, files=files, commits=made, lane=lane, roster=ROSTER)
    told: dict[str, Any] = {
        "owners": OWNERS,
        "codeowners": CODEOWNERS,
        "base_paths": ("contracts/pay.openapi.json", "src/a.py"),
        "signers_known": True,
    }
    told |= more
    return OracleChange(diff=msgspec.structs.replace(diff, **told.pop("diff", {})), now_ns=NOW_NS, **told)


def fixture(
    host: str = "staging.example.com", at: str = "2026-11-29T08:00:00Z", text: str = "no", **more: Any
) -> bytes:
    """A recorded exchange whose digest holds."""
    value: dict[str, Any] = {
        "kind": "http-fixture",
        "version": 1,
        "host": host,
        "recorded_at": at,
        "recorded_by": "ada",
        "request": {"method": "POST", "path": "/v1/charges", "body_sha256": None},
        "response": {"status": 409, "headers": {}, "text": text},
        "screened": 0,
    }
    value |= more
    return json.dumps({**value, "sha256": fixture_digest(value)}, indent=2).encode()


PRODUCT = changed("src/pay.py", b"a", b"b")
DOCS = changed("docs/pay.md", b"a", b"b")
RECORD = changed("fixtures/http/charge-409.json", None, fixture())
OLD = ("fixtures/http/a.json", fixture(at="2026-10-01T00:00:00Z"))
GOOD = with_files(PRODUCT)


def vouched(
    *files: FileChange, owner: str = "payments-oncall", signer: str | None = "ada@example.com", **more: Any
) -> OracleChange:
    """A change of oracles that their owner attests."""
    trailers = (("oracle-owner", owner), ("oracle-digest", digest_of(files)))
    made = msgspec.structs.replace(commit("b", files, trailers=trailers), signer=signer)
    return with_files(*files, commits=(made,), **more)


def tests(after: bytes | None, before: bytes = TEST, path: str = "tests/test_pay.py", **more: Any) -> OracleChange:
    return with_files(changed(path, before, after), **more)


WEAKER: dict[str, OracleChange] = {
    "fewer-asserts": tests(TEST.replace(b"    assert charge(2) == 4\n", b"")),
    "test-removed": tests(None),
    "skipped": tests(TEST.replace(b"def", b"@pytest.mark.skip\ndef")),
    "tolerance": tests(TEST + b"    assert charge(3) < 50\n", before=TEST + b"    assert charge(3) < 5\n"),
    "tautology": tests(TEST.replace(b"charge(2) == 4", b"True")),
    "loosened": tests(TEST.replace(b"charge(2) == 4", b"charge(2) is not None")),
    "swallowed": tests(
        TEST + b"    try:\n        assert charge(3) == 4\n    except Exception:\n        pass\n",
        before=TEST + b"    assert charge(3) == 4\n",
    ),
    "rows-dropped": tests(
        TEST.replace(b"def", b"@pytest.mark.parametrize('x', [1])\ndef"),
        before=TEST.replace(b"def", b"@pytest.mark.parametrize('x', [1, 2])\ndef"),
    ),
    "snapshot": with_files(PRODUCT, changed("src/__snapshots__/a.snap", b"exports[`a`] = `1`;\n", b"exports[`a`] = `2`;\n")),
    "config": with_files(changed("pytest.ini", b"[pytest]\n", b"[pytest]\naddopts = --ignore=tests/oracle\n")),
    "mock": tests(TEST + b"    m = Mock(return_value=3)\n    assert m(1) == 3\n"),
    "no-product": with_files(
        changed("tests/test_f.py", None, b"import json\n\ndef test_f():\n    assert json.loads(open('f').read())['code'] == 'x'\n")
    ),
}  # fmt: skip  # one a kind


def _red() -> Iterator[tuple[str, Status, OracleChange]]:
    oracle = changed("contracts/pay.openapi.json", b"{}", b"[]")
    yield "change", "refused", with_files()
    yield "change", "refused", with_files(PRODUCT, diff={"defects": ("a shallow clone",)})
    yield "owners", "refused", with_files(PRODUCT, owners=None)
    yield "owners", "refused", with_files(PRODUCT, owners=OWNERS.replace(b"\t", b"   "))
    yield "owner-known", "refused", with_files(PRODUCT, owners=b"contracts/*.openapi.json\tnobody\tgit-pin\n")
    yield "owner-known", "refused", with_files(PRODUCT, owners=b"contracts/*.openapi.json\thelpers\tgit-pin\n")
    yield "examined", "refused", with_files(PRODUCT, owners=b"gone/*.json\tqa-lead\tgit-pin\n")
    for lane in (FREE, UNKNOWN):
        yield "lane-oracle", "fail", with_files(oracle, lane=lane)
        yield "lane-oracle", "fail", with_files(changed("tests/scratch/conftest.py", None, b""), lane=lane)
        yield "guarded", "fail", with_files(changed("src/payments/charge.ts", b"a", b"b"), lane=lane)
        yield "runner", "fail", with_files(PRODUCT, lane=lane, secrets_here=("DEPLOY_KEY",))
        yield "self-files", "fail", with_files(changed(".github/workflows/ci.yml", b"a", b"b"), lane=lane)
        yield (
            "stale",
            "fail",
            with_files(PRODUCT, lane=lane, fixtures=(OLD,)),
        )
    yield "stale", "refused", with_files(PRODUCT, lane=FREE, fixtures=(("fixtures/http/a.json", b"{}"),))
    yield "mixed", "fail", with_files(oracle, changed("src/pay.sql", b"a", b"b"))
    yield (
        "mixed",
        "fail",
        with_files(changed("contracts/pay.openapi.json", b"{}", None), changed("contracts/moved.json", None, b"{}")),
    )
    # What a later commit undid was there.
    yield "mixed-commit", "fail", with_files(PRODUCT, commits=(commit("a", (oracle, PRODUCT)), commit("b", (oracle,))))
    yield (
        "free-tests",
        "fail",
        with_files(changed("web/x.test.js", None, b"it('a', () => { expect(f()).toBe(1); });"), lane=FREE),
    )
    yield "free-tests", "refused", with_files(changed("src/p_test.go", None, b"package p"), lane=UNKNOWN)
    yield "self-files", "fail", with_files(changed("conftest.py", b"", b"x = 1"), lane=BEA)
    yield "link", "fail", with_files(changed("fixtures/http/more.txt", None, b"../../src", "120000"))
    yield "link", "fail", with_files(changed("data", None, b"fixtures", "120000"))
    yield "link", "fail", with_files(changed("fixtures", None, b"elsewhere", "120000"))
    yield "disguised", "fail", with_files(changed("Fixtures/HTTP/a.json", None, b"{}"))
    yield "codeowners", "fail", with_files(PRODUCT, codeowners=None)
    yield "codeowners", "fail", with_files(PRODUCT, codeowners=("CODEOWNERS", b"* @ada\n/contracts/ @helper\n"))
    yield "codeowners", "refused", with_files(PRODUCT, codeowners=("CODEOWNERS", b"* @ada\n!/contracts/\n"))
    yield "attested", "fail", with_files(RECORD)
    yield "attested", "fail", vouched(RECORD, signer=None)
    yield "attested", "fail", vouched(RECORD, signer="bea@example.com")
    yield "attested", "fail", vouched(RECORD, owner="qa-bot")
    yield "attested", "fail", msgspec.structs.replace(vouched(RECORD), diff=with_files(RECORD).diff)
    yield "signed-off", "fail", with_files(changed("golden/a.json", b"1", b"2"))
    yield (
        "recorded",
        "fail",
        with_files(changed("fixtures/http/a.json", None, b'{"status": "HTTP/1.1 409", "body": {}}')),
    )
    yield "recorded", "fail", with_files(changed("fixtures/http/a.json", None, fixture(host="prod.example.com")))
    yield "recorded", "fail", with_files(changed("fixtures/http/a.json", None, fixture(at="2026-12-24T08:00:00Z")))
    yield "recorded", "fail", with_files(changed("fixtures/http/a.json", None, fixture().replace(b"409", b"200")))
    token = "sk" + "-" + "0123456789abcdef0123456789"
    yield "unredacted", "fail", with_files(changed("fixtures/http/a.json", None, fixture(text=f"Bearer {token}")))
    yield "readable", "refused", tests(b"def test_a(:\n")
    for kind in KINDS:
        yield f"weakened.{kind}", "fail", WEAKER[kind]


def _green() -> Iterator[tuple[str, OracleChange]]:
    for check in (*PLAIN, *(f"weakened.{kind}" for kind in KINDS)):
        yield check, GOOD
    for lane in (FREE, UNKNOWN):
        for check in ("lane-oracle", "free-tests", "guarded", "self-files"):
            yield (
                check,
                with_files(
                    PRODUCT,
                    DOCS,
                    changed("tests/scratch/test_sketch.py", None, b"def test_a():\n    assert True\n"),
                    lane=lane,
                ),
            )
            yield check, with_files(changed("src/testimonials.py", b"a", b"b"), lane=lane)
    yield "mixed", with_files(changed("contracts/pay.openapi.json", b"{}", b"[]"), DOCS)
    yield "attested", vouched(RECORD)
    yield "recorded", vouched(RECORD)
    yield "unredacted", vouched(RECORD)
    yield "link", with_files(changed("docs/latest", None, b"v2", "120000"))
    yield (
        "signed-off",
        with_files(
            changed("golden/a.json", b"1", b"2"),
            commits=(
                commit(
                    "a", (changed("golden/a.json", b"1", b"2"),), trailers=(("Signed-off-by", "Ada <ada@example.com>"),)
                ),
            ),
        ),
    )
    yield "self-files", with_files(changed("conftest.py", b"", b"x = 1"))
    yield "weakened.snapshot", with_files(changed("src/__snapshots__/a.snap", b"1", b"2"))
    yield "weakened.snapshot", with_files(PRODUCT, changed("src/__snapshots__/a.snap", b"1\n", b"1\n2\n"))
    yield (
        "weakened.fewer-asserts",
        vouched(
            changed("tests/oracle/test_a.py", TEST, TEST.replace(b"    assert charge(2) == 4\n", b"")), owner="qa-lead"
        ),
    )


def cases() -> Iterator[Case]:
    for check, status, evidence in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
    for check, evidence in _green():
        yield Case(check=check, status="pass", gate=LIMITS, evidence=evidence)
    allowed = Exemption(
        path="tests/test_pay.py", kind="skipped", why="the sandbox is down", by="ada", until="2026-12-20"
    )
    gate = msgspec.structs.replace(LIMITS, exceptions=(allowed,))
    yield Case(check="exceptions", status="pass", gate=gate, evidence=GOOD)
    yield Case(check="weakened.skipped", status="pass", gate=gate, evidence=WEAKER["skipped"])
    for more in ({"until": "2026-11-01"}, {"until": "2027-11-01"}, {"until": "soon"}, {"why": " "}, {"by": "agent"}):
        over = msgspec.structs.replace(LIMITS, exceptions=(msgspec.structs.replace(allowed, **more),))
        yield Case(check="exceptions", status="refused", gate=over, evidence=GOOD)
        yield Case(check="weakened.skipped", status="fail", gate=over, evidence=WEAKER["skipped"])
