"""A runner's function is one under any name that can be followed in the file, or that the runner itself has."""

import pytest

from drillmaster.rules.weakening import Version, compared

TEST = "import { total } from '../shop'\n%s\n%s('a', () => { expect(total(1)).toBe(2) })\n"


def kinds(head: str, call: str) -> set[str]:
    before, after = TEST % ("", "it"), TEST % (head, call)
    found = compared([Version(path="tests/a.test.ts", before=before.encode(), after=after.encode())])
    return {one.kind for one in found.weakenings}


@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("const t = it.skip", "t"),
        ("const t = it['skip']", "t"),
        ("", "it['skip']"),
        ("const { skip } = it", "skip"),
        ("const { skip: t } = test", "t"),
        ("import { it as t } from 'vitest'", "t.skip"),
        ("import { test as t } from 'vitest'\nconst s = t.skip", "s"),
        ("import { xit as run } from '@jest/globals'", "run"),
        ("import t from 'node:test'", "t.skip"),
        ("import * as v from 'vitest'", "v.it.skip"),
        ("const { it: t } = require('mocha')", "t.skip"),
        ("const v = require('vitest')\nconst t = v.it", "t.todo"),
        ("const t = process.env.CI ? it.skip : it", "t"),
        ("let t = it\nt = it.skip", "t"),
        ("const it = test.skip", "it"),
        ("const t = xit", "t"),
        ("const t = it.only", "t"),
    ],
)
def test_what_keeps_a_test_out_does_so_under_another_name(head: str, call: str) -> None:
    assert kinds(head, call) == {"skipped"}


@pytest.mark.parametrize(
    ("head", "call"),
    [("import { later } from './helpers'", "later"), ("const later = (n, f) => it.skip(n, f)", "later")],
)
def test_a_test_under_a_name_of_somebody_elses_is_gone(head: str, call: str) -> None:
    assert "test-removed" in kinds(head, call)


@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("const t = it", "t"),
        ("const t = it.concurrent", "t"),
        ("import { it as t } from 'vitest'", "t"),
        ("import * as v from 'vitest'", "v.it"),
        ("import { test as base } from '@playwright/test'\nconst test = base.extend({})", "test"),
        ("const withDb = test.extend({ db: async ({}, use) => use(1) })", "withDb"),
        ("import { test } from './fixtures'", "test"),
        ("import t from 'node:test'", "t"),
    ],
)
def test_a_test_that_runs_under_another_name_is_the_same(head: str, call: str) -> None:
    assert kinds(head, call) == set()
