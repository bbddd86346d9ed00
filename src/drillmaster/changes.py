"""A change of a repository as a gate sees it: two commits, what differs between them, who made each step, and on whose word.

1. Paths are git's, `/` between folders, as they are committed. A rename is a deletion and an addition: what moved away
   from a protected place was removed from it.
2. A commit's author line is a claim; anybody can write one. A signature that held is more: it names a person of the
   roster. Where neither is known the answer is unknown, and unknown has no authority.
3. A lane says who made the change, `human` or `free` (an agent, a model, a bot), and on whose word. An environment
   variable can lower a lane and can never raise one.
"""

from typing import Literal

import msgspec

__all__ = ["FOLDER", "Commit", "Diff", "FileChange", "Lane", "Person", "Roster"]

FOLDER = ".drillmaster"
"""Where a repository keeps its policies and lists."""

How = Literal["added", "deleted", "modified", "retyped"]


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """One path that differs. A mode is git's (`100644`, `100755`, `120000` a link, `160000` a submodule), "" where absent."""

    path: str
    how: How
    mode_before: str = ""
    mode_after: str = ""
    sha_before: str = ""
    """Name of git's object; "" where absent."""
    sha_after: str = ""
    before: bytes | None = None
    """Content, where the gate asked for it and it is not too large; a link's is where it points."""
    after: bytes | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of the change, as its author line says, and as its signature proves."""

    sha: str
    author: str
    """`Name <address>`, which anybody can write."""
    committer: str
    co_authors: tuple[str, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()
    """Of the message, as (key, value), in order: `("Signed-off-by", "A <a@example>")`."""
    signer: str | None = None
    """Identity of the roster whose signature held; None: unsigned, or by nobody that base knows."""
    parents: tuple[str, ...] = ()
    subject: str = ""
    files: tuple[FileChange, ...] = ()
    """Against its first parent, without content."""


class Person(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the roster. `identity` is the principal of allowed_signers; `emails` are how git knows the person."""

    identity: str
    emails: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()
    """Accounts of the code host."""
    kind: Literal["human", "bot"] = "human"
    teams: tuple[str, ...] = ()
    until: str | None = None
    """Last day on the roster, `2027-02-28`; None: no end is set."""


class Roster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`.drillmaster/roster.yaml` of the base ref: who is a person, who is a bot, who owns what."""

    kind: Literal["roster"]
    version: Literal[1]
    people: tuple[Person, ...]


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """Who made the change and on whose word. `by` is for people: "signatures of ada", "actor ada, by the event of the CI"."""

    name: Literal["human", "free", "unknown"]
    by: str
    people: tuple[str, ...] = ()
    """Identities of the roster that made it."""


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """`base..head`: everything that differs, all commits in between, oldest first, and who made them."""

    base: str
    """Full name of the merge base, from which the change is told."""
    head: str
    files: tuple[FileChange, ...]
    commits: tuple[Commit, ...]
    lane: Lane
    roster: Roster | None = None
    """Of the base ref; None: it has none."""
    defects: tuple[str, ...] = ()
    """What could not be read: a shallow clone, a missing object. Each refuses."""

    def paths(self) -> tuple[str, ...]:
        """List every path of the change and of any commit in it, once, sorted: what was undone within it was touched too."""
        touched = {one.path for one in self.files}
        return tuple(sorted(touched.union(*({one.path for one in commit.files} for commit in self.commits))))
