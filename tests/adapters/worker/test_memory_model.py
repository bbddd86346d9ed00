"""Any order of writes and moves, of which any may die at any step: what is there was written, and nothing is lost or mixed."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from drillmaster.adapters.worker.memory import MOVE_STEPS, Workspace
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.guards.memory import Memory
from drillmaster.intake.judging import Asked
from tests.adapters.worker.test_memory import POLICY, Died

GUARD = Memory(grants={"runner": ("memory",)}, max_bytes=1_000, personal="refuse")
PATHS = st.sampled_from(["memory.json", "notes/memory.md", "memory-2.json", "notes/memory.json"])
STEP = st.none() | st.sampled_from(MOVE_STEPS)


class Writes(RuleBasedStateMachine):
    """The folder beside what it has to be: of each file, the contents that it may have by now."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="dm-memory-"))
        (self.folder / "work" / "notes").mkdir(parents=True)
        (self.folder / "policy.yaml").write_text(POLICY)
        self.root = self.folder / "work"
        self.workspace = Workspace(self.root, GUARD, sums=self.folder / "sums.json")
        self.may_be: dict[str, set[bytes | None]] = {}
        self.n = 0

    def teardown(self) -> None:
        (self.root / "readme.md").write_text("so that there is something to look at")
        now_ns = parse_rfc3339("2026-12-01T01:00:00Z") or 0
        asked = Asked(now_ns=now_ns, state=self.folder, policy=str(self.folder / "policy.yaml"))
        told = self.workspace.resume(asked)
        there = {path for path in self.may_be if (self.root / path).exists()}
        shutil.rmtree(self.folder)
        assert told.faults == (), told.faults
        assert told.files == len(there)

    @rule(path=PATHS, step=STEP)
    def write(self, path: str, step: str | None) -> None:
        self.n += 1
        data = b'{"n": %d}' % self.n
        before = self.may_be.get(path, {None})

        def at(one: str) -> None:
            if one == step:
                raise Died

        with contextlib.suppress(Died):
            assert self.workspace.write("runner", path, data, at=at).allowed
            before = set()
        self.may_be[path] = before | {data}
        self._settle()

    @rule(source=PATHS, to=PATHS, step=STEP)
    def move(self, source: str, to: str, step: str | None) -> None:
        had = self.may_be.get(source, {None})

        def at(one: str) -> None:
            if one == step:
                raise Died

        try:
            assert self.workspace.move("runner", source, to, at=at).allowed
        except Problem:
            assert None in had, "only what is not there cannot be moved"
        except Died:
            self.may_be[to] = self.may_be.get(to, {None}) | had
            self.may_be[source] = had | {None}
        else:
            if source != to:
                self.may_be[to], self.may_be[source] = had - {None}, {None}
        self._settle()

    def _settle(self) -> None:
        """What is there now is what it is from now on."""
        for path, may_be in self.may_be.items():
            file = self.root / path
            there = file.read_bytes() if file.exists() else None
            assert there in may_be, f"{path} has {there!r}, of {may_be}"
            self.may_be[path] = {there}

    @invariant()
    def what_is_there_can_be_read(self) -> None:
        for path, may_be in self.may_be.items():
            for content in may_be - {None}:
                assert self.workspace.read(path) == content


TestWrites = Writes.TestCase
TestWrites.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
