"""Interviews by Locust's workers on hosts of their own: network namespaces with addresses and clocks of theirs."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.evidence.samples import read_samples
from tests.e2e.locustlab import Many, needs_locust, plan_for, together
from tests.e2e.truthlab import truth_server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.needs("ip"), needs_locust]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Many]:
    yield from together(tmp_path)


NEAR = "10.214.9.{}"
_NTH = itertools.count()


class Hosts:
    """Network namespaces, each a host of its own, on one network with this one."""

    def __init__(self, count: int) -> None:
        ip = shutil.which("ip") or "/usr/sbin/ip"
        self._ip = ip
        # What the last ones left may go a little later than they: names never come again.
        self._mark = f"{os.getpid() % 1_000_000}{next(_NTH)}"
        self.names = [f"dml{self._mark}h{number}" for number in range(1, count + 1)]
        self.bridge = f"dml{self._mark}"

    def make(self) -> None:
        made = self._run("link", "add", self.bridge, "type", "bridge")
        if made.returncode:
            pytest.skip(f"needs the right to make network namespaces: {made.stderr.strip()}")
        self._run("addr", "add", f"{NEAR.format(1)}/24", "dev", self.bridge, check=True)
        self._run("link", "set", self.bridge, "up", check=True)
        for number, name in enumerate(self.names, start=1):
            here, there = f"v{self._mark}a{number}", f"v{self._mark}b{number}"
            made = self._run("netns", "add", name)
            if made.returncode:
                pytest.skip(f"needs the right to make network namespaces: {made.stderr.strip()}")
            for words in (
                ["link", "add", here, "type", "veth", "peer", "name", there, "netns", name],
                ["link", "set", here, "master", self.bridge],
                ["link", "set", here, "up"],
                ["-n", name, "addr", "add", f"{NEAR.format(number + 1)}/24", "dev", there],
                ["-n", name, "link", "set", there, "up"],
                ["-n", name, "link", "set", "lo", "up"],
            ):
                self._run(*words, check=True)

    def unmake(self) -> None:
        for name in self.names:
            self._run("netns", "del", name)
        self._run("link", "del", self.bridge)

    def within(self, number: int) -> list[str]:
        return [self._ip, "netns", "exec", self.names[number - 1]]

    def _run(self, *words: str, check: bool = False) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([self._ip, *words], capture_output=True, text=True, check=check)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    found = Hosts(2)
    try:
        found.make()
        yield found
    finally:
        found.unmake()


def test_two_hosts_share_an_interview_with_clocks_of_their_own(lab: Many, tmp_path: Path, hosts: Hosts) -> None:
    far = NEAR.format(1)
    # Where the kernel allows it, each host has a monotonic clock of its own too, days ahead of this one.
    apart = []
    if (unshare := shutil.which("unshare")) is not None:
        apart = [unshare, "--time", "--fork", "--monotonic", "250000"]
        if subprocess.run([*apart, "true"], capture_output=True).returncode:
            apart = []
    with truth_server(tmp_path, host=far) as seen:
        lab.lead(plan_for(lab, seen.url), "--rehearsal", "--permit-host", far, "--yes", workers=2, bind=f"{far}:0")
        flags = ("--permit-host", far)
        workers = [lab.follow(*flags, within=[*hosts.within(number), *apart]) for number in (1, 2)]
        assert lab.ends() == 0, lab.text
        assert [worker.wait(20) for worker in workers] == [0, 0]
    read = lab.read()
    assert read.ended == "completed"
    assert {row[3] for row in seen.rows} == {NEAR.format(2), NEAR.format(3)}  # each from its own address
    levels = {level.label: level for level in read.interview.levels}
    assert sorted(row[0] for row in seen.rows) == list(range(len(seen.rows)))
    assert levels["warm_c6"].n == 240
    assert sum(level.n for level in read.interview.levels) + 6 == len(seen.rows)
    members = read.manifest.engines["members"]
    assert [member["one_clock"] for member in members] == [not apart, not apart]
    if not apart:
        return
    assert all(abs(member["offset_ms"] - 250e6) <= member["bound_ms"] for member in members)
    # On the run's clock: the server, whose clock is the master's, read each call after it was sent and before it ended.
    mono0_ns = int(read.manifest.mono0_ns)
    clocks = [row for row in lab.events() if row["event"] == "worker_clock"]
    [cold_from] = (row[3] for row in seen.rows if row[0] == 0)  # the first engine's; who came first nobody knows
    for engine, member in enumerate(members, start=1):
        _, columns = read_samples((lab.run_dir / f"samples.{engine}.bin").read_bytes())
        gone_ns = max(abs(row["gone_ns"]) + row["bound_ns"] for row in clocks if row["engine"] == engine)
        slack_ns = member["bound_ms"] * 1e6 + gone_ns
        read_ns = sorted(row[1] - mono0_ns for row in seen.rows if (row[3] == cold_from) is (engine == 1))
        read_ns = read_ns[len(read_ns) - len(columns.rows) :]  # the cold call has a file of its own
        assert len(read_ns) == len(columns.rows)
        for sent, read_at, end in zip(
            sorted(row.sent_ns for row in columns.rows),
            read_ns,
            sorted(row.end_ns for row in columns.rows),
            strict=True,
        ):
            assert sent - slack_ns <= read_at <= end + slack_ns


@pytest.mark.parametrize(
    ("flags", "word"), [([], "--permit-host"), (["--permit-host", NEAR.format(9)], "--permit-host")]
)
def test_a_worker_whose_own_flag_does_not_repeat_the_host_refuses(
    lab: Many, tmp_path: Path, hosts: Hosts, flags: list[str], word: str
) -> None:
    far = NEAR.format(1)
    with truth_server(tmp_path, host=far) as seen:
        lab.lead(plan_for(lab, seen.url), "--rehearsal", "--permit-host", far, "--yes", workers=1, bind=f"{far}:0")
        worker = lab.follow(*flags, within=hosts.within(1))
        assert lab.ends() == 2, lab.text
        assert word in lab.text
        assert worker.wait(20) == 2
    assert seen.rows == []


def test_the_loopback_of_another_host_is_refused(lab: Many, tmp_path: Path, hosts: Hosts) -> None:
    with truth_server(tmp_path) as seen:
        lab.lead(seen.url, "--levels", "1", "--warm", "1", "--idle", "0", workers=1, bind=f"{NEAR.format(1)}:0")
        worker = lab.follow(within=hosts.within(1))
        assert lab.ends() == 2, lab.text
        assert "another machine or network than the master's" in lab.text
        assert worker.wait(20) == 2
    assert seen.rows == []
