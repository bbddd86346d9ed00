"""A session over any course of events: a call passes only where all of what was signed held, a moment ago."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from drillmaster.adapters.worker.tools import Shelf, SignedList, ToolSession
from drillmaster.clock import ManualClock
from drillmaster.gates._cases.tools import LIMITS
from drillmaster.gates.tools import Listing
from drillmaster.guards.tools import Tools
from drillmaster.strict import digest

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
RARELY_OTHER = st.sampled_from([1, 1, 1, 2])
MOSTLY = st.sampled_from([True, True, True, True, False])
AGE_S = 10
CALLS = 3


def wire(version: int) -> dict[str, Any]:
    return {"name": "repo_read", "description": f"Read a file, {version}.", "inputSchema": SCHEMA}


def signed(version: int) -> SignedList:
    contract = {
        "name": "repo_read",
        "server": "own",
        "origin": "human",
        "signed_by": "operator.local",
        "privileges": ["fs.read"],
        "inputSchema": SCHEMA,
        "wire_sha256": digest(wire(version)),
    }
    value = {"kind": "tool-allowlist", "version": 1, "servers": [], "tools": [contract]}
    return SignedList(listing=Listing(place="list", value=value), sha256=digest(value), signers=("operator.local",))


class Loaded(Shelf):
    """A shelf whose lists are put on it by hand."""

    def __init__(self) -> None:
        self.gate = LIMITS
        self._list: SignedList | None = None


class Course(RuleBasedStateMachine):
    """The model keeps what a person would say is true, in a few plain words."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.shelf = Loaded()
        guard = Tools(
            privileges=("fs.read",),
            granted=("fs.read",),
            wire="pinned",
            max_compared_ms=AGE_S * 1_000,
            max_arguments_bytes=100,
            max_calls=CALLS,
        )
        self.guard = guard
        self.list_version: int | None = None
        self.server_version = 1
        self.now = 0.0
        self.a_session_begins()

    def a_session_begins(self) -> None:
        self.session = ToolSession(self.shelf, self.guard, "own", clock=self.clock, log=lambda *_: None)
        self.compared: tuple[int, float] | None = None
        """Which list the server was found to match, and when; None: it is open."""
        self.over = False
        self.made = 0

    @initialize()
    def all_is_well(self) -> None:
        self.a_list_is_loaded(1)
        self.the_server_is_asked(True, False, False)

    @precondition(lambda self: self.over)
    @rule()
    def a_person_begins_anew(self) -> None:
        self.a_session_begins()

    @rule(version=RARELY_OTHER)
    def a_list_is_loaded(self, version: int) -> None:
        self.list_version = version
        self.shelf._list = signed(version)

    @rule(version=RARELY_OTHER)
    def the_server_changes_in_silence(self, version: int) -> None:
        self.server_version = version

    @rule()
    def the_server_says_that_its_list_changed(self) -> None:
        self.session.changed()
        self.compared = None

    @rule(seconds=st.sampled_from([0.5, AGE_S, AGE_S + 1]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.now += seconds

    @rule(readable=MOSTLY, more=MOSTLY.map(lambda one: not one), late=MOSTLY.map(lambda one: not one))
    def the_server_is_asked(self, readable: bool, more: bool, late: bool) -> None:
        asked_in = self.session.round
        if late:
            self.session.changed()
        offered = [wire(self.server_version), *([{**wire(1), "name": "repo_write"}] if more else [])]
        decision = self.session.opened(offered if readable else None, asked_in=asked_in)
        matches = self.list_version == self.server_version and not more
        holds = readable and matches and not late and not self.over
        assert decision.allowed == holds
        self.compared = (self.server_version, self.now) if holds else None
        if readable and not matches and self.list_version is not None:
            self.over = True

    @rule(good=MOSTLY)
    def a_model_calls(self, good: bool) -> None:
        asked = self.session.call("repo_read", '{"path": "a"}' if good else '{"path": "a", "mode": "w"}')
        fresh = self.compared is not None and self.now - self.compared[1] <= AGE_S
        same = self.compared is not None and self.compared[0] == self.list_version
        may = good and fresh and same and not self.over and self.made < CALLS
        assert asked.decision.allowed == may, asked.decision
        assert (asked.arguments == {"path": "a"}) == may
        self.made += may

    @invariant()
    def a_session_that_is_over_offers_nothing(self) -> None:
        assert bool(self.session.halted) == self.over
        if self.over:
            assert self.session.allowed() == []


Course.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
TestCourse = Course.TestCase
