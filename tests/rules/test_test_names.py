"""Which paths are tests: names of many languages, and names that only look so."""

import pytest

from drillmaster.rules.test_names import is_snapshot, is_test, is_test_config


@pytest.mark.parametrize("path", [
    "tests/test_a.py", "test_a.py", "src/a_test.py", "conftest.py", "a/conftest.py", "app/tests.py", "x.test.js",
    "src/x.test.tsx", "a.spec.ts", "a.cy.ts",
    "src/p_test.go", "spec/p_spec.py", "spec/models/user_spec.rb", "lib/p_spec.rb", "test/p_test.exs",
    "src/test/java/A.java", "a/PayTest.java",
    "a/TestPay.java", "a/PayTests.cs", "a/PayIT.java", "Pay.Tests/Charge.cs", "a/PayTest.kt", "a/PaySpec.scala",
    "a/PaySpec.hs", "pay_test.cc",
    "pay_unittest.cc", "pay_test.dart", "tests/pay.rs", "src/tests.rs", "a/PayTest.php", "PayTests.swift",
    "a.bats", "a.feature", "x.robot", "t/a.t",
    "tests/testthat/test-a.R", "test/runtests.jl", "__tests__/a.js", "src/__mocks__/a.ts", "e2e/a.ts",
    "Tests/a.json", "tests/é.py", "policy_test.rego",
    "a/__snapshots__/a.snap", "tests/scratch/test_a.py", "jest.config.js", "pytest.ini", "pytest.toml", "vitest.config.ts",
    "playwright.config.ts",
    "test-a.mjs", "cypress/support/a.js", "tests/a b\n.py", "features/steps/pay.py",
])  # fmt: skip  # a list
def test_a_test_is_known_by_its_name(path: str) -> None:
    assert is_test(path), path


@pytest.mark.parametrize("path", [
    "src/testimonials.py", "src/latest.go", "src/attest.ts", "src/contest.py", "src/protest.rb",
    "src/Testimonials.java", "src/inspect.py",
    "src/aspect.js", "src/greatest_common.py", "spec/openapi.yaml", "specs/pay.proto", "docs/testing.md",
    "src/specification.ts", "src/edit.py",
    "src/Credit.java", "src/audit.py", "src/it.py", "README.md", "pyproject.toml", "package.json",
    "src/testify.go", "src/detest/a.py",
    "src/footsteps.py", "src/legacy.py", "src/testability.ts", "src/testimony_view.py", "t.py", "src/spectrum.py",
])  # fmt: skip  # a list
def test_what_only_looks_like_one_is_none(path: str) -> None:
    assert not is_test(path), path


def test_snapshots_and_settings_are_told_apart() -> None:
    assert (
        is_snapshot("a/__snapshots__/b.snap") and is_snapshot("tests/golden/a.json") and is_snapshot("x.approved.txt")
    )
    assert not is_snapshot("src/snapshot.py") and not is_snapshot("src/golden_ratio.py")
    assert (
        is_test_config("web/jest.config.ts")
        and is_test_config("pyproject.toml")
        and not is_test_config("src/config.py")
    )
