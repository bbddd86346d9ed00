"""The plugin's hooks around a test: faults of markers put on and taken off, what shows nothing failed, the wire told.

1. A fault of a marker is on while the test's body runs, and not while its fixtures are set up and torn down.
2. Where the tests' own ini has a marker `fault`, that one is theirs: ours is heard where a test takes `provider`, and brings it
   to nobody.
"""

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from drillmaster.backstage.provider import Provider

__all__ = ["hold", "register"]

_MARKER = (
    "fault(mode, *, params={}, when={}, share=1.0, nth=[], skip=0, every=1, first=None, may_miss=False, **parameters): "
    "the requests that the test's body sends to `provider` meet this fault on the wire, as within "
    "`with provider.fault(...)`. Several are tried from top to bottom. The test fails where nobody met it. Example: "
    '@pytest.mark.fault("stall", after_events=3, when={"stream": True}). All faults: docs/reference/faults.md of drillmaster.'
)
_FAULTED = "fault"

_provider = pytest.StashKey["Provider"]()
_foreign = pytest.StashKey[bool]()


def register(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER)


def hold(item: pytest.Item, one: "Provider") -> None:
    """This test has this provider."""
    item.stash[_provider] = one


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # A test that asks for a fault and takes no fixture, since its agent reads the environment: the fault brings it.
    names = getattr(item, "fixturenames", None)
    if (
        names is not None
        and "provider" not in names
        and item.get_closest_marker(_FAULTED)
        and not _is_foreign(item.config)
    ):
        names.append("provider")


def _is_foreign(config: pytest.Config) -> bool:
    """Whether these tests have a marker of the same name of their own."""
    known = config.stash.get(_foreign, None)
    if known is None:
        names = [re.split(r"[:(]", line, maxsplit=1)[0].strip() for line in config.getini("markers")]
        known = config.stash[_foreign] = names.count(_FAULTED) > 1
    return known


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    one = item.stash.get(_provider, None)
    # From the outside in, and from top to bottom: decorators are applied from below.
    marks = list(item.iter_markers(_FAULTED))[::-1]
    if one is None:
        if marks and not _is_foreign(item.config):
            pytest.fail(
                f"{item.nodeid}: @pytest.mark.fault asks for a fault, and the fixture `provider` of this test is not "
                "drillmaster's; give your own another name",
                pytrace=False,
            )
    else:
        complaint = one.start(marks, item.name)
        if complaint:
            pytest.fail(complaint, pytrace=False)
    failed, complaint = True, ""
    try:
        result = yield
        failed = False
    finally:
        one = item.stash.get(_provider, None)  # the body may have asked for it by `getfixturevalue`
        if one is not None:
            complaint = one.settle(failed=failed)
    if complaint:
        pytest.fail(complaint, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, pytest.TestReport]:
    report: pytest.TestReport = yield
    one = item.stash.get(_provider, None)
    if one is not None:
        if report.failed and not one.told:
            one.told = True
            if f"reached {one.url}" not in report.longreprtext:  # an assertion of ours has said it
                report.sections.append(("what the wire saw (drillmaster)", one.wire()))
        if report.when == "teardown":
            del item.stash[_provider]
    return report
