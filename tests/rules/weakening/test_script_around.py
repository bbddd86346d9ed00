"""Weakened tests in scripts, where the weakening stands around the test, or within what is compared; and what is everyday."""

import pytest

pytest.importorskip("tree_sitter_typescript", reason="the extra that reads scripts")

from drillmaster.rules.weakening import Version, compared

HEAD = "import { charge } from '../src/pay'\nimport * as pay from '../src/pay'\nimport { test, expect, vi } from 'vitest'\n"
BODY = "  expect(charge(1)).toBe(3)\n  expect(charge(2)).toBe(4)\n"
TEST = f"test('a', () => {{\n{BODY}}})\n"
LOOP = "test('a', () => {\n  for (const [a, b] of [[1, 3], [2, 4]]) {\n    expect(charge(a)).toBe(b)\n  }\n})\n"
TABLE = "test.each([[1, 3], [2, 4]])('a', (a, b) => {\n  expect(charge(a)).toBe(b)\n})\n"
THROWS = "test('a', () => {\n  expect(() => charge(-1)).toThrow('neg')\n})\n"


def kinds(before: str | None, after: str, path: str = "tests/pay.test.ts") -> list[str]:
    old = None if before is None else (HEAD + before).encode()
    found = compared([Version(path=path, before=old, after=(HEAD + after).encode())])
    assert not found.unread, found.unread
    return sorted({one.kind for one in found.weakenings})


def first(new: str) -> str:
    return TEST.replace("expect(charge(1)).toBe(3)", new)


WEAKER = [
    (TEST, f"test('a', () => {{\n  try {{\n{BODY}  }} finally {{ return }}\n}})\n", "fewer-asserts"),
    (TEST, first("expect(charge(1)).toBe"), "fewer-asserts"),
    (TEST, first("expect(charge(1)).toBe(charge(1))"), "loosened"),
    (TEST, first("expect(charge(1) === 3 || true).toBe(true)"), "tautology"),
    (TEST, first("expect(charge(1) ?? 3).toBe(3)"), "loosened"),
    (TEST, first("expect(charge(1) || 3).toBe(3)"), "loosened"),
    (TEST, first("expect(Math.round(charge(1))).toBe(3)"), "loosened"),
    (TEST, first("vi.spyOn(pay, 'charge').mockReturnValue(3)\n  expect(pay.charge(1)).toBe(3)"), "mock"),
    (TEST, f"function never() {{\n{TEST}}}\n", "test-removed"),
    (TEST, f"const expect = () => ({{ toBe() {{}} }})\n{TEST}", "config"),
    (TEST, f"function test(name, body) {{}}\n{TEST}", "config"),
    (TEST, f"expect.extend({{ toBe() {{ return {{ pass: true }} }} }})\n{TEST}", "config"),
    (TEST, f"expect.extend({{ toBe: () => ({{ pass: true }}) }})\n{TEST}", "config"),
    (TEST, f"beforeEach((ctx) => ctx.skip())\n{TEST}", "skipped"),
    (TEST, f"process.exit(0)\n{TEST}", "config"),
    (LOOP, LOOP.replace("    expect", "    if (a) continue\n    expect"), "loosened"),
    (LOOP, LOOP.replace("    expect", "    if (a > 1) {\n      break\n    }\n    expect"), "loosened"),
    (THROWS, THROWS.replace("'neg'", "''"), "loosened"),
    (THROWS, THROWS.replace("'neg'", "/.*/"), "loosened"),
    (THROWS, THROWS.replace("charge(-1)", "{ throw new Error('neg') }"), "tautology"),
]


@pytest.mark.parametrize(("before", "after", "kind"), WEAKER)
def test_what_takes_a_failure_away_is_told(before: str, after: str, kind: str) -> None:
    found = kinds(before, after)
    assert kind in found or (kind == "fewer-asserts" and "swallowed" in found), found


EVERYDAY = [
    (TEST, TABLE),
    (TEST, f"function suite() {{\n{TEST}}}\nsuite()\n"),
    (TEST, f"export function suite() {{\n{TEST}}}\n"),
    (TEST, f"expect.extend({{ toBeMoney() {{ return {{ pass: true }} }} }})\n{TEST}"),
    (TEST, f"beforeEach(() => pay.reset())\n{TEST}"),
    (TEST, first("vi.spyOn(pay, 'log')\n  expect(charge(1)).toBe(3)")),
    (TEST, f"test('a', () => {{\n  try {{\n{BODY}  }} finally {{ close(() => {{ return 1 }}) }}\n}})\n"),
    (THROWS, THROWS.replace("'neg'", "/neg/")),
    (THROWS, THROWS.replace("'neg'", "'negative'")),
    (None, f"beforeEach((ctx) => ctx.skip())\n{TEST}"),
]


@pytest.mark.parametrize(("before", "after"), EVERYDAY)
def test_what_is_done_every_day_is_no_weakening(before: str | None, after: str) -> None:
    assert kinds(before, after) == []
