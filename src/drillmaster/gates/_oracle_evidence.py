"""A change as the oracle gate sees it, and what each of its paths is: oracle, product, docs or scratch."""

import hashlib
import re
from functools import cached_property

import msgspec

from drillmaster.changes import Commit, Diff, FileChange, Person, Roster
from drillmaster.rules._globs import Globs, folded
from drillmaster.rules.codeowners import PLACES
from drillmaster.rules.oracle_owners import Oracles, Owned, read_oracle_owners
from drillmaster.rules.test_names import is_snapshot, is_test
from drillmaster.rules.weakening import Compared

__all__ = ["LIST", "OracleChange", "Sorted", "digest_of", "is_told_bot", "owns", "self_file"]

LIST = ".oracle-owners"

_SELF_FOLDERS = (
    ".drillmaster/", ".github/workflows/", ".github/actions/", ".circleci/", ".buildkite/", ".gitlab/ci/",
    ".woodpecker/", ".husky/", ".githooks/",
    ".ci/", ".tekton/", ".forgejo/workflows/", ".gitea/workflows/",
)  # fmt: skip  # words
_SELF_NAMES = frozenset({
    ".gitlab-ci.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "jenkinsfile", ".travis.yml", ".drone.yml",
    "appveyor.yml", ".woodpecker.yml",
    ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml", ".gitattributes", ".cirrus.yml",
    *(place.casefold() for place in PLACES), LIST,
})  # fmt: skip  # words
_SELF_ANYWHERE = frozenset({"conftest.py", "oracle_gate.py", "sitecustomize.py", "usercustomize.py", LIST})
_BOT = re.compile(
    r"\[bot\]|(?:^|[-_ .@/])(?:bot|agent|copilot|dependabot|renovate|github-actions|codex|claude|devin|gpt|llm|openai"
    r"|free-?lane)(?:$|[-_ .@/<])",
    re.IGNORECASE,
)


class OracleChange(msgspec.Struct, frozen=True, kw_only=True):
    """`owners` is `.oracle-owners` of the base (None: it has none), `codeowners` its CODEOWNERS with its path."""

    diff: Diff
    owners: bytes | None
    now_ns: int
    codeowners: tuple[str, bytes] | None = None
    base_paths: tuple[str, ...] = ()
    fixtures: tuple[tuple[str, bytes], ...] = ()
    """Recorded fixtures of the head, by path."""
    policy_paths: tuple[str, ...] = ()
    """Where the policy lies in the repository, with its signatures."""
    secrets_here: tuple[str, ...] = ()
    """Names of variables of the environment that hold deploy keys or signing material."""
    compared: Compared | None = None
    """What became of the tests, where the way in has compared them already (it can say how far it is); None: not yet."""
    signers_known: bool = False
    """Whether the base holds `allowed_signers`."""


def self_file(path: str, policy_paths: tuple[str, ...] = ()) -> bool:
    """Whether a path judges the change: the lists, policies, workflows, hooks, what a runner loads by itself."""
    low = folded(path)
    return (
        low in _SELF_NAMES
        or low.startswith(_SELF_FOLDERS)
        or low.rpartition("/")[2] in _SELF_ANYWHERE
        or low in {folded(one) for one in policy_paths}
    )


def is_told_bot(name: str) -> bool:
    """Whether a name says of itself that nobody is behind it. A person of the roster may have any name."""
    return _BOT.search(name.strip()) is not None


def owns(owner: str, roster: Roster | None) -> tuple[Person, ...]:
    """Give the people of the roster whom an owner of a list names: one by identity, address or account, or a team's."""
    word = owner.removeprefix("@").casefold()
    team = word.rpartition("/")[2]

    def names(person: Person) -> bool:
        own = {person.identity, *person.emails, *person.logins}
        return word in {one.casefold() for one in own} or team in {
            one.removeprefix("@").casefold() for one in person.teams
        }

    return tuple(person for person in (roster.people if roster is not None else ()) if names(person))


def digest_of(files: tuple[FileChange, ...]) -> str:
    """Give the digest that an owner attests: of each path and its new content, sorted; `-` where it is gone."""
    whole = hashlib.sha256()
    for one in sorted(files, key=lambda one: one.path):
        content = "-" if one.how == "deleted" else hashlib.sha256(one.after or b"").hexdigest()
        whole.update(f"{one.path}\0{one.mode_after}\0{content}\n".encode("utf-8", "surrogateescape"))
    return f"sha256:{whole.hexdigest()}"


class Sorted:
    """Each path of a change by what it is."""

    def __init__(self, change: OracleChange, *, scratch: tuple[str, ...], docs: tuple[str, ...]) -> None:
        self.change = change
        self.rows, self.defects = read_oracle_owners(change.owners) if change.owners is not None else ((), ())
        self.list = Oracles(self.rows)
        self._scratch = scratch
        self._docs = Globs(docs)
        self.paths = change.diff.paths()
        self._kinds: dict[str, str] = {}
        self.compared: Compared | None = change.compared
        """What became of the tests, once it was asked."""

    def kind(self, path: str) -> str:
        """Say what a path is: `oracle`, `scratch`, `docs` or `product`. Where two fit, the first of these."""
        if path not in self._kinds:
            self._kinds[path] = self._kind(path)
        return self._kinds[path]

    def _kind(self, path: str) -> str:
        if self.list.of(path) or self_file(path, self.change.policy_paths):
            return "oracle"
        if path.startswith(self._scratch):
            return "scratch"
        text = path.endswith((".md", ".rst", ".txt"))
        if self._docs.any(path) and not is_snapshot(path) and (text or not is_test(path)):
            return "docs"
        return "product"

    def of(self, kind: str) -> list[str]:
        return [path for path in self.paths if self.kind(path) == kind]

    @cached_property
    def oracles(self) -> list[str]:
        return self.of("oracle")

    @cached_property
    def product(self) -> list[str]:
        return self.of("product")

    @cached_property
    def product_beside_snapshots(self) -> bool:
        """Whether the change touches product that is neither a snapshot nor a test."""
        return any(not is_snapshot(path) and not is_test(path) for path in self.product)

    @cached_property
    def self_files(self) -> list[str]:
        return [path for path in self.paths if self_file(path, self.change.policy_paths)]

    @cached_property
    def tests(self) -> list[str]:
        """Tests that are neither oracle nor scratch."""
        return [path for path in self.product if is_test(path)]

    @cached_property
    def disguised(self) -> list[tuple[str, Owned]]:
        """Paths that are an oracle's but for case, width or characters that nobody sees."""
        return [(path, row) for path in self.paths for row in self.list.alike(path)[:1]]

    def owned(self) -> dict[str, list[FileChange]]:
        """Give the files of the whole change that each owner answers for, the gate's own left out."""
        found: dict[str, list[FileChange]] = {}
        for one in self.change.diff.files:
            for row in self.list.of(one.path):
                found.setdefault(row.owner, []).append(one)
        return found

    def mixed(self) -> list[Commit]:
        """Give the commits that touch an oracle and product at once."""
        found = []
        for commit in self.change.diff.commits:
            kinds = {self.kind(one.path) for one in commit.files}
            if {"oracle", "product"} <= kinds:
                found.append(commit)
        return found
