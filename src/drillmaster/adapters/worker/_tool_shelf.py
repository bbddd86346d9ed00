"""The signed list that a worker goes by, and the loading of a new one: rules 1 and 2 of `tools`."""

import logging
import os
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

import drillmaster
from drillmaster import strict
from drillmaster.clock import Clock, SystemClock, parse_rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.gates._tools_contract import Reason
from drillmaster.gates.tools import Listing, Tools, ToolsGate
from drillmaster.intake import format_of, is_there, read_bytes
from drillmaster.intake.judging import signatures_beside
from drillmaster.intake.mcp_files import CAP_BYTES
from drillmaster.intake.tools import file_fact
from drillmaster.judge import decode_gate, judge, load_policy
from drillmaster.rules import argv, names
from drillmaster.signing import POLICY, verify_bytes

__all__ = ["Shelf", "SignedList"]

_LOG = logging.getLogger("drillmaster.tools")
_POLICY_CAP_BYTES = 16 << 20
_NOT_HERE = frozenset({"descriptors"})
"""Checks of the gate that wait for the session: what the server offers is asked of the server."""


class SignedList(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An allow-list in force, and who signed it."""

    listing: Listing
    sha256: str
    signers: tuple[str, ...]

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], dict[str, Any]]:
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for one in self.listing.tools:
            name, server = one.get("name"), one.get("server", "") if self.listing.ours else ""
            if isinstance(name, str) and isinstance(server, str):
                found.setdefault((server, name), one)
        return found

    def contract(self, server: str, tool: str) -> dict[str, Any] | None:
        """Give the contract of that very name. In the article's form a tool is of no server."""
        return self._by_name.get((server if self.listing.ours else "", tool))

    def like(self, server: str, tool: str) -> bool:
        """Whether a name that the list does not have looks like one that it has."""
        look = names.look(tool)
        return any(
            names.look(str(one.get("name"))) == look
            for one in self.listing.tools
            if not self.listing.ours or one.get("server", "") == server
        )


class Shelf:
    """The signed list that a worker goes by, and the loading of a new one.

    `policy` is the policy of the gate `tools`, read once. `allowed_signers` and `revoked` are the operator's own files, in
    places where no agent writes. Raises Problem where the policy cannot be read or nobody signed it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        policy: str | Path,
        allowed_signers: str | Path,
        revoked: str | Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._path = Path(path)
        self._clock = clock or SystemClock()
        self._allowed = read_bytes(allowed_signers, 1 << 20)
        self._revoked = None if revoked is None else read_bytes(revoked, 1 << 20)
        place = os.fspath(policy)
        data = read_bytes(place, _POLICY_CAP_BYTES)
        self._signers(Path(place), data)
        decoded, self._policy_sha256 = load_policy(data, place=place, fmt=format_of(place))
        gate = decode_gate(decoded, "tools", place=place)
        assert isinstance(gate, ToolsGate)
        self.gate = gate
        self._pin = decoded.pin
        self._lock = threading.Lock()
        self._list: SignedList | None = None

    @property
    def list(self) -> SignedList | None:
        """The list in force; None: none was ever loaded."""
        return self._list

    def load(self) -> SignedList:
        """Load the list that lies there now, and put it in force. Raises Problem, and leaves the one before in force."""
        with self._lock:
            try:
                found = self._read()
            except Problem as problem:
                _LOG.warning("tools: load refused: %s", problem)
                raise
            self._list = found
            return found

    def keep(self) -> tuple[str, ...]:
        """Load the list if it can be loaded; give why not, in ids of checks. (): the one in force is the one that lies there."""
        try:
            self.load()
        except _NotLoaded as problem:
            return problem.checks
        except Problem:
            return ("allowlist-missing",) if not is_there(self._path) else ("unreadable",)
        return ()

    def root(self) -> Path:
        """The folder that relative programs count from."""
        return self._path.parent

    def lets_pass(self, reason: Reason) -> bool:
        """Whether an exception of the policy is for this, and not over by now."""
        gate = self.gate
        if not gate.exceptions:
            return False
        now_ns = self._clock.wall_ns()
        left = tuple(one for one in gate.exceptions if (parse_rfc3339(f"{one.until}T23:59:59Z") or 0) >= now_ns)
        return bool(left) and msgspec.structs.replace(gate, exceptions=left).lets_pass(reason)

    def _read(self) -> SignedList:
        place = os.fspath(self._path)
        if not is_there(self._path):
            raise _not_loaded(place, ("allowlist-missing",), "nothing", f"git checkout HEAD -- {place}")
        data = read_bytes(place, CAP_BYTES)
        listing = Listing(place=place, value=strict.load(data, place=place, fmt="json", cap_bytes=CAP_BYTES))
        signing, why = "held", ""
        signers: tuple[str, ...] = ()
        try:
            signers = self._signers(self._path, data)
        except Refused as refused:
            signing, why = "refused", f"found {refused.found}, wanted {refused.wanted}"
        gate = self.gate
        programs = {
            one.path: self.fact(one.path)
            for one in gate.programs
            if gate.place == "host" or argv.within(one.path) is not None
        }
        evidence = Tools(
            listing=listing,
            now_ns=self._clock.wall_ns(),
            file=file_fact(self._path),
            signing=signing,  # type: ignore[arg-type]  # one of its words, by the two lines above
            signing_why=why,
            signers=signers,
            programs=programs,
            before=None if self._list is None else self._list.listing,
        )
        sha256 = strict.digest_bytes(data)
        verdict = judge(
            gate,
            evidence,
            name="tools",
            subject=place,
            pin=self._pin,
            policy_digest=self._policy_sha256,
            evidence_digest=sha256,
            evidence_end_ns=evidence.now_ns,
            counts={},
            now_ns=evidence.now_ns,
            version=drillmaster.__version__,
        )
        wrong = [one for one in verdict.checks if one.status != "pass" and one.id not in _NOT_HERE]
        if wrong:
            raise _not_loaded(place, tuple(one.id for one in wrong), wrong[0].why or wrong[0].title, wrong[0].remedy)
        return SignedList(listing=listing, sha256=sha256, signers=signers)

    def _signers(self, path: Path, data: bytes) -> tuple[str, ...]:
        """Say who signed these bytes. Raises Refused where no signature is there, or one does not hold."""
        found = verify_bytes(
            data,
            signatures_beside(path),
            self._allowed,
            self._revoked,
            namespace=POLICY,
            at_ns=self._clock.wall_ns(),
            place=os.fspath(path),
        )
        signers = tuple(dict.fromkeys(one.identity for one in found))
        gate: ToolsGate | None = getattr(self, "gate", None)
        if gate is not None and not set(signers) & set(gate.signers):
            raise Refused(
                os.fspath(path),
                found=f"signatures of {', '.join(signers)}",
                wanted="one of a signer whom the policy names",
                remedy=f"drillmaster policy sign {path} --key KEY",
            )
        return signers if gate is None else tuple(one for one in signers if one in gate.signers)

    def fact(self, path: str) -> Any:
        """Look at a program, by the policy's path of it."""
        local = argv.within(path)
        return file_fact(Path(path) if local is None else self.root() / local, digest=True)


class _NotLoaded(Refused):
    """A list that is not put in force, with the checks that say why."""

    checks: tuple[str, ...] = ()


def _not_loaded(place: str, checks: tuple[str, ...], why: str, remedy: str) -> _NotLoaded:
    problem = _NotLoaded(
        place, found=f"{', '.join(checks)}: {why}", wanted="a list that the gate `tools` passes", remedy=remedy
    )
    problem.checks = checks
    return problem
