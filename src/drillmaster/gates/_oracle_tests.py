"""The tests of a change in both versions, and what they assert less: one check a kind of weakening."""

from collections.abc import Iterator
from typing import Literal

from drillmaster.changes import FileChange
from drillmaster.gates._oracle_attest import attested_paths
from drillmaster.gates._oracle_evidence import Sorted
from drillmaster.rules.test_names import is_snapshot, is_test, is_test_config
from drillmaster.rules.weakening import KINDS, Compared, Kind, Version, Weakening, compared, is_compared, is_settings
from drillmaster.verdict import Check, Cite, Exact

__all__ = ["readable", "versions", "wanted", "weakened"]

_SHOWN = 6
_LINK = "120000"
TITLES: dict[Kind, str] = {
    "fewer-asserts": "no test asserts less often than before",
    "test-removed": "no test is gone, or has a name that no runner collects",
    "skipped": "no test is newly skipped, expected to fail, tried again, or left out by `only`",
    "tolerance": "no tolerance, bound or time limit is wider",
    "tautology": "no assertion holds whatever the product does",
    "loosened": "no assertion leaves more open than before",
    "swallowed": "no failed assertion is caught and dropped",
    "rows-dropped": "no row of a table of cases is dropped",
    "snapshot": "no snapshot is taken again beside the product, or by an agent",
    "config": "no setting collects less, or lets more pass",
    "mock": "no test asserts what it put in the product's place itself",
    "no-product": "no new test asserts its own fixture and calls nothing else",
}
_REMEDY = (
    "put it back; where it is meant, its owner says so: an oracle's by attesting its digest, any other by an entry of "
    "`exceptions` in the policy"
)


def wanted(path: str) -> bool:
    """Whether the gate looks into a file."""
    return is_test(path) or is_test_config(path) or is_settings(path) or is_snapshot(path)


def versions(told: Sorted) -> list[Version]:
    """Give the files whose two versions are compared: tests and their settings, not scratch."""
    found = []
    for one in told.change.diff.files:
        kind = told.kind(one.path)
        code = kind == "oracle" and is_compared(one.path)
        if (
            kind in ("scratch", "docs")
            or is_snapshot(one.path)
            or not (is_test(one.path) or is_test_config(one.path) or is_settings(one.path) or code)
        ):
            continue
        found.append(_version(one))
    return found


def _version(one: FileChange) -> Version:
    """Give both versions of a file. A link or a submodule in its place holds no tests."""
    before = one.before if one.mode_before.startswith("100") else None
    after = one.after if one.mode_after.startswith("100") else None
    missing = (before is None and one.mode_before.startswith("100")) or (
        after is None and one.mode_after.startswith("100")
    )
    return Version(path=one.path, before=before, after=after, missing=missing)


def _compared(told: Sorted) -> Compared:
    """Compare once for one look at a change: thirteen checks ask."""
    if told.compared is None:
        told.compared = compared(versions(told))
    return told.compared


def readable(told: Sorted) -> Check:
    """Whether every test that changed could be read in its language."""
    result = _compared(told)
    others = f"; {len(result.not_compared)} in languages that are told by name alone" if result.not_compared else ""
    if result.not_followed:
        shown = ", ".join(result.not_followed[:_SHOWN])
        others += f"; {len(result.not_followed)} new decorators of other files, for a person to follow: {shown}"
    return Check(
        id="readable",
        role="judgement",
        status="refused" if result.unread else "pass",
        title=f"each changed test could be read: {result.tests} tests in both versions{others}",
        observed=Exact(len(result.unread)),
        cites=tuple(Cite(path, 0) for path, _, _ in result.unread[:50]),
        why="; ".join(f"{path}: {what}" for path, what, _ in result.unread[:_SHOWN]),
        remedy=result.unread[0][2] if result.unread else "",
    )


def weakened(
    told: Sorted, excepted: frozenset[tuple[str, str]], *, attest: Literal["digest", "trailer", "no"]
) -> Iterator[Check]:
    """Give one check for each kind of weakening."""
    found = [*_compared(told).weakenings, *_snapshots(told)]
    lane = told.change.diff.lane.name
    owned = attested_paths(told) if attest == "digest" and lane == "human" and found else frozenset()
    for kind in KINDS:
        mine = [one for one in found if one.kind == kind]
        let = [one for one in mine if (one.path, one.kind) in excepted or one.path in owned]
        bad = [one for one in mine if one not in let]
        allowed = f"; {len(let)} that their owner allowed" if let else ""
        yield Check(
            id=f"weakened.{kind}",
            role="judgement",
            status="fail" if bad else "pass",
            title=f"{TITLES[kind]}{allowed}",
            observed=Exact(len(bad)),
            cites=tuple(Cite(one.path, one.line) for one in bad[:50]),
            why="; ".join(map(str, bad[:_SHOWN])) + (f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""),
            remedy=_REMEDY if bad else "",
        )


def _snapshots(told: Sorted) -> Iterator[Weakening]:
    """Snapshots that were taken again beside the product, or by whoever is no person. New entries alone are none."""
    if not told.product_beside_snapshots and told.change.diff.lane.name == "human":
        return
    for one in told.change.diff.files:
        if not is_snapshot(one.path) or one.how == "added" or told.kind(one.path) == "scratch":
            continue
        was = set((one.before or b"").splitlines())
        now = set((one.after or b"").splitlines())
        if one.how == "deleted" or was - now or one.before is None or one.after is None:
            yield Weakening(
                kind="snapshot",
                path=one.path,
                test="",
                line=1,
                was="",
                now="deleted" if one.how == "deleted" else "written again",
            )
