"""Weakened tests in JavaScript and TypeScript: each kind shown, and changes that weaken nothing."""

import sys
import textwrap

import pytest

from drillmaster.rules.weakening import Version, compared

HEAD = "import { charge } from './pay';\n"


def kinds(before: str | None, after: str | None, path: str = "src/pay.test.ts") -> list[str]:
    def data(text: str | None) -> bytes | None:
        return None if text is None else textwrap.dedent(text).encode()

    found = compared([Version(path=path, before=data(before), after=data(after))])
    assert not found.unread, found.unread
    return sorted({one.kind for one in found.weakenings})


def bodies(before: str, after: str) -> list[str]:
    def test(body: str) -> str:
        return HEAD + "describe('pay', () => {\n  it('charges', async () => {\n" + body + "\n  });\n});\n"

    return kinds(test(before), test(after))


EQ = "expect(charge(1)).toBe(3);"


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (EQ + "expect(charge(2)).toBe(4);", EQ, "fewer-asserts"),
        (EQ, "charge(1);", "fewer-asserts"),
        (EQ, "return;" + EQ, "fewer-asserts"),
        (EQ, "if (false) {" + EQ + "}", "fewer-asserts"),
        (EQ, "const never = () => {" + EQ + "};", "fewer-asserts"),
        (EQ, "for (const x of []) {" + EQ + "}", "fewer-asserts"),
        (EQ, "expect(charge(1));", "fewer-asserts"),
        (EQ, "expect(true).toBe(true);", "tautology"),
        (EQ, "expect(1).toEqual(1);", "tautology"),
        (EQ, "const x = charge(1); expect(x).toBe(x);", "tautology"),
        (EQ, "expect(charge(1) === 3 || true).toBeTruthy();", "tautology"),
        (EQ, "expect(true).toBeTruthy();", "tautology"),
        (EQ, "assert(true);", "tautology"),
        (EQ, "assert.equal(1, 1);", "tautology"),
        (EQ, "expect(charge(1).length).toBeGreaterThanOrEqual(0);", "tautology"),
        (EQ, "expect(charge(1)).toBeTruthy();", "loosened"),
        (EQ, "expect(charge(1)).toBeDefined();", "loosened"),
        (EQ, "expect(charge(1)).not.toBeNull();", "loosened"),
        (EQ, "expect([3, 4]).toContain(charge(1));", "loosened"),
        (EQ, "expect(charge(1)).toEqual(expect.anything());", "loosened"),
        (EQ, "expect(charge(1)).toEqual(expect.any(Number));", "loosened"),
        ("expect(charge(1)).toEqual({a: 1});", "expect(charge(1)).toMatchObject({a: 1});", "loosened"),
        ("expect(() => charge(0)).toThrow('amount');", "expect(() => charge(0)).toThrow();", "loosened"),
        (EQ, "if (process.env.CI) {" + EQ + "}", "loosened"),
        (EQ, "process.env.CI && " + EQ, "loosened"),
        ("expect(charge(1)).to.equal(3);", "expect(charge(1)).to.be.ok;", "loosened"),
        ("assert.strictEqual(charge(1), 3);", "assert.ok(charge(1));", "loosened"),
        ("expect(charge(1)).toBeCloseTo(3, 5);", "expect(charge(1)).toBeCloseTo(3, 1);", "tolerance"),
        ("expect(charge(1)).toBeCloseTo(3);", "expect(charge(1)).toBeCloseTo(3, 0);", "tolerance"),
        ("expect(charge(1)).toBeLessThan(5);", "expect(charge(1)).toBeLessThan(500);", "tolerance"),
        ("expect(charge(1)).to.be.closeTo(3, 0.1);", "expect(charge(1)).to.be.closeTo(3, 1);", "tolerance"),
        (
            "await waitFor(() => {" + EQ + "}, {timeout: 10});",
            "await waitFor(() => {" + EQ + "}, {timeout: 9000});",
            "tolerance",
        ),
        (EQ, "try {" + EQ + "} catch (e) {}", "swallowed"),
        (EQ, "try {" + EQ + "} catch { console.log(1); }", "swallowed"),
        ("await expect(charge(1)).resolves.toBe(3);", "expect(charge(1)).resolves.toBe(3);", "swallowed"),
        (
            "await charge(1).then(x => { expect(x).toBe(3); });",
            "await charge(1).then(x => { expect(x).toBe(3); }).catch(() => {});",
            "swallowed",
        ),
        (
            "return charge(1).then(x => { expect(x).toBe(3); });",
            "charge(1).then(x => { expect(x).toBe(3); });",
            "swallowed",
        ),
        (EQ, "setTimeout(() => {" + EQ + "}, 10);", "swallowed"),
        (EQ, "const charge = () => 3;" + EQ, "mock"),
        (EQ, "this.skip();" + EQ, "skipped"),
        (EQ, "if (!process.env.X) { return; }" + EQ, "skipped"),
        (
            "for (const x of [1, 2, 3]) { expect(charge(x)).toBe(x); }",
            "for (const x of [1]) { expect(charge(x)).toBe(x); }",
            "rows-dropped",
        ),
        (
            "[1, 2].forEach(x => { expect(charge(x)).toBe(x); });",
            "[1].forEach(x => { expect(charge(x)).toBe(x); });",
            "rows-dropped",
        ),
        (EQ, "const charge2 = jest.fn(() => 3); expect(charge2(1)).toBe(3);", "mock"),
        ("expect(charge(1)).toMatchInlineSnapshot(`3`);", "expect(charge(1)).toMatchInlineSnapshot(`4`);", "snapshot"),
    ],
)
def test_a_weaker_test_is_told(before: str, after: str, kind: str) -> None:
    assert kind in bodies(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (EQ, "const result = charge(1);\nexpect(result).toBe(3);"),
        ("const a = charge(1); expect(a).toBe(3);", "const b = charge(1);\n\n expect( b ).toBe( 3, );  // why"),
        ("expect(charge('x')).toBe(3)", 'expect(charge("x")).toBe(3);'),
        (EQ, EQ + "expect(charge(2)).toBe(4);"),
        (EQ, "expect(charge(1)).toBe(4);"),
        ("expect(charge(1)).toBeTruthy();", EQ),
        ("expect(charge(1)).toBeCloseTo(3, 1);", "expect(charge(1)).toBeCloseTo(3, 5);"),
        (EQ, "try {" + EQ + "} finally { cleanup(); }"),
        (EQ, "try {" + EQ + "} catch (e) { dump(); throw e; }"),
        ("await expect(charge(1)).resolves.toBe(3);", "return expect(charge(1)).resolves.toBe(3);"),
        (EQ, "expect(charge(1) as number).toBe(3);"),
        (
            "for (const x of [1]) { expect(charge(x)).toBe(x); }",
            "for (const y of [1, 2]) { expect(charge(y)).toBe(y); }",
        ),
        (
            "const m = jest.fn(); charge(m); expect(m).toHaveBeenCalledWith(3);",
            "const n = jest.fn(); charge(n); expect(n).toHaveBeenCalledWith(3);",
        ),
        ("expect.assertions(1);" + EQ, EQ),
        (EQ, EQ + "const s = {a: 1}; charge(s); expect(s).toEqual({a: 1});"),
        (EQ, "const { charge } = require('./pay');" + EQ),
        (EQ, "const { charge } = await import('./pay');" + EQ),
        (EQ, "return charge(0).then(() => {" + EQ + "});"),
    ],
)
def test_a_harmless_change_is_left_alone(before: str, after: str) -> None:
    assert bodies(before, after) == []


ONE = "it('a', () => { expect(charge(1)).toBe(3); });\n"
TWO = "it('b', () => { expect(charge(2)).toBe(4); });\n"


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (ONE + TWO, TWO, "test-removed"),
        (ONE, ONE.replace("it(", "it.skip("), "skipped"),
        (ONE, ONE.replace("it(", "xit("), "skipped"),
        (ONE, ONE.replace("it(", "it.todo("), "skipped"),
        (ONE, ONE.replace("it(", "it.failing("), "skipped"),
        (ONE, "it('a');\n", "skipped"),
        (ONE, ONE.replace("it(", "it.skipIf(process.env.CI)("), "skipped"),
        (ONE + TWO, ONE + TWO.replace("it(", "it.only("), "skipped"),
        (ONE + TWO, ONE + TWO.replace("it(", "fit("), "skipped"),
        ("describe('x', () => {" + ONE + "});", "describe.skip('x', () => {" + ONE + "});", "skipped"),
        ("describe('x', () => {" + ONE + "});", "xdescribe('x', () => {" + ONE + "});", "skipped"),
        ("describe('x', () => {" + ONE + "});", "describe.only('x', () => {" + ONE + "});", "skipped"),
        (ONE, ONE.replace("() =>", "{ skip: true }, () =>"), "skipped"),
        (ONE, ONE.replace("() =>", "{ retry: 5 }, () =>"), "skipped"),
        (ONE, "if (process.env.CI) {" + ONE + "}", "skipped"),
        (ONE, "const spec = (n, f) => {};\nspec('a', () => { expect(charge(1)).toBe(3); });", "test-removed"),
        ("it.each([[1, 1], [2, 2]])('n %i', (a, b) => { expect(charge(a)).toBe(b); });",
         "it.each([[1, 1]])('n %i', (a, b) => { expect(charge(a)).toBe(b); });", "rows-dropped"),
        ("it.each`a|b\n${1}|${1}\n${2}|${2}`('n', ({a, b}) => { expect(charge(a)).toBe(b); });",
         "it.each`a|b\n${1}|${1}`('n', ({a, b}) => { expect(charge(a)).toBe(b); });", "rows-dropped"),
        ("const R = [1, 2];\nR.forEach(r => { it(`n ${r}`, () => { expect(charge(r)).toBe(r); }); });",
         "const R = [1];\nR.forEach(r => { it(`n ${r}`, () => { expect(charge(r)).toBe(r); }); });", "rows-dropped"),
        (ONE.replace("})", "}, 100)"), ONE.replace("})", "}, 90000)"), "tolerance"),
        ("const check = (x) => { expect(charge(x)).toBe(x); };\nit('a', () => { check(1); });",
         "const check = (x) => { charge(x); };\nit('a', () => { check(1); });", "fewer-asserts"),
        (ONE, "jest.mock('./pay', () => ({ charge: () => 3 }));\n" + ONE, "mock"),
    ],
)  # fmt: skip  # a table
def test_a_weaker_file_is_told(before: str, after: str, kind: str) -> None:
    assert kind in kinds(HEAD + before, HEAD + after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ONE + TWO, TWO + ONE),
        (ONE + TWO, "it('both', () => { expect(charge(1)).toBe(3); expect(charge(2)).toBe(4); });"),
        ("it('both', () => { expect(charge(1)).toBe(3); expect(charge(2)).toBe(4); });", ONE + TWO),
        (ONE, ONE.replace("'a'", "'charges one'")),
        (ONE, ONE.replace("it(", "test(")),
        (ONE, "describe('pay', () => {" + ONE + "});"),
        (
            "it('a', () => { expect(charge(1)).toBe(3); });",
            "const check = (x) => { expect(charge(x)).toBe(3); };\nit('a', () => { check(1); });",
        ),
        (ONE.replace("it(", "it.skip("), ONE),
        (ONE, ONE.replace("() =>", "function ()")),
        (ONE, ONE + "it.todo('more');"),
    ],
)
def test_a_harmless_file_is_left_alone(before: str, after: str) -> None:
    assert kinds(HEAD + before, HEAD + after) == []


@pytest.mark.parametrize("path", ["a.test.js", "a.test.jsx", "a.spec.mjs", "a.test.tsx", "a.test.cts"])
def test_every_suffix_is_read(path: str) -> None:
    before = "const { charge } = require('./pay');\n" + ONE
    assert kinds(before, before.replace("toBe(3)", "toBeTruthy()"), path) == ["loosened"]


def test_a_fixture_that_is_asserted_against_itself_is_told() -> None:
    text = "import fs from 'fs';\nit('a', () => { expect(JSON.parse(fs.readFileSync('f.json')).code).toBe('x'); });"
    assert kinds(None, text) == ["no-product"]
    assert kinds(None, HEAD + text) == []


def test_settings_of_a_runner_that_leave_out_are_told() -> None:
    before = "export default { testEnvironment: 'node' };"
    assert kinds(
        before, "export default { testEnvironment: 'node', testPathIgnorePatterns: ['oracle'] };", "jest.config.ts"
    ) == ["config"]
    assert kinds(before, "export default { testEnvironment: 'jsdom' };", "jest.config.ts") == []


@pytest.mark.parametrize(
    "data", [b"it('a', () => {", b"\xff\xfe", b"it(" * 30_000, b"((" * 40_000 + b"1" + b"))" * 40_000]
)
def test_a_file_that_cannot_be_read_is_not_passed(data: bytes) -> None:
    assert compared([Version(path="a.test.ts", before=b"", after=data)]).unread


def test_syntax_that_the_grammar_does_not_know_is_let_be_where_it_stands_in_both() -> None:
    odd = "expectType<<A extends number>(a: A) => void>(f);\n"
    assert kinds(HEAD + odd + ONE, HEAD + odd + ONE.replace("toBe(3)", "toBeTruthy()")) == ["loosened"]
    assert compared(
        [Version(path="a.test.ts", before=ONE.encode(), after=(odd + ONE).encode())]
    ).unread  # not where it is new
    assert compared([Version(path="a.test.ts", before=None, after=(odd + ONE).encode())]).unread


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("t.equal(charge(1), 3); t.error(e);", "t.equal(charge(1), 3);", "fewer-asserts"),
        ("t.same(charge(1), {a: 3});", "t.ok(charge(1));", "loosened"),
        ("t.equal(charge(1), 3);", "t.pass();", "fewer-asserts"),
        ("t.equal(charge(1), 3);", "t.ok(true);", "tautology"),
        ("t.test('x', (st) => { st.equal(charge(1), 3); });", "t.test('x', (st) => { charge(1); });", "fewer-asserts"),
    ],
)
def test_assertions_of_what_a_test_is_handed_count(before: str, after: str, kind: str) -> None:
    def test(body: str) -> str:
        return HEAD + "test('a', (t) => { " + body + " });"

    assert kind in kinds(test(before), test(after))


def test_without_the_extra_nothing_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    found = compared([Version(path="a.test.ts", before=b"", after=b"it('a', () => {});")])
    assert found.unread[0][2] == "pip install 'drillmaster[oracle]'"
