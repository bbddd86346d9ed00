"""The pytest plugin's price for every run that does not use it, and what its words collide with."""

import subprocess
import sys

from drillmaster import faults
from drillmaster.targeting import Rule


def test_loading_it_brings_in_nothing() -> None:
    code = "import pytest, sys; before = set(sys.modules); import drillmaster.pytest_plugin; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) == {"drillmaster", "drillmaster.pytest_plugin"}
    hooks = code.replace("drillmaster.pytest_plugin", "drillmaster.backstage.around")
    ran = subprocess.run([sys.executable, "-c", hooks], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) == {"drillmaster", "drillmaster.backstage", "drillmaster.backstage.around"}


def test_what_a_test_holds_needs_no_loop_and_no_server() -> None:
    code = "import pytest, sys; before = set(sys.modules); import drillmaster.backstage.provider; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(ran.stdout.split()) & {"asyncio", "ssl", "drillmaster.proxy", "drillmaster.standins.provider_http"}


def test_a_fault_has_no_parameter_that_the_fixture_takes_for_itself() -> None:
    for tag in faults.names():
        assert not {"params", "may_miss", "mode", "when"} & set(faults.load(tag).__struct_fields__), tag


def test_the_words_that_faults_and_rules_share_are_these() -> None:
    shared = {word for tag in faults.names() for word in faults.load(tag).__struct_fields__} & set(
        Rule.__struct_fields__
    )
    assert shared == {"every", "name", "nth"}  # each is refused where both could be meant; see docs/howto/pytest.md
