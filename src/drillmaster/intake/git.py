"""git, asked about somebody else's repository: commits, trees, files and differences as bytes. The only door to it.

1. Nothing of the tree's own configuration runs: no hooks, no fsmonitor, no external diff, no textconv, no filter, no
   pager, no prompt, no replaced objects, no grafts, no lazy fetch. A repository is data here, and some of it a model may
   have written.
2. Names come from people and are checked before they are passed: one that begins with a dash, or is no name of a
   commit, or is that of two (a tag called as the base is), is refused here. Paths travel with NUL between them, never quoted.
   So do the fields of a commit, and one that says to be in an encoding that hides such a NUL is refused.
3. What cannot be told is a `Problem` with the command that mends it: a shallow clone, a base that was not fetched.
4. Content is what was committed. A working tree is not looked at.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from drillmaster.changes import Commit, FileChange, How
from drillmaster.errors import Problem
from drillmaster.intake.git_process import MAX_BYTES, Begun, Object, Objects, ask, begin
from drillmaster.strict import shown

__all__ = ["Entry", "Repository", "ask"]

MAX_BLOB_BYTES = 16 * 1024 * 1024
MAX_COMMITS = 2_000
NEAR_COMMITS = 16
"""As many are looked at for a base before git is asked, which starts for it."""
NEAR_FOLDERS = 64
"""As many that differ are compared before git is asked."""
_KEPT_COMMIT_BYTES = 65_536
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@{}^~+-]*")
_STEPS = re.compile(r"[~^]|@\{")
_SHORT = re.compile(r"[0-9a-f]{4,39}")
_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# git's name of a tree without a file, by the length of names in a repository.
_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_FOLDER = "40000"
_NO_OBJECT = ("", "0" * 40, "0" * 64)
_HOW: dict[str, How] = {"A": "added", "D": "deleted", "M": "modified", "T": "retyped"}
_FIELDS = ("%H", "%an <%ae>", "%cn <%ce>", "%P", "%s", "%(trailers:only,unfold)")
_LOG = ("--no-show-signature", "--no-mailmap", "--encoding=UTF-8")
# What a commit may say its text is in. git decodes by it, and some encodings hold a NUL, or another address, in plain letters.
_TEXT_IN = (
    r"(?:utf-?8|(?:us-)?ascii|(?:iso-?)?8859-?\d+|iso[-_]?8859[-_]\d+|latin-?\d+|(?:windows-?|cp)(?:125\d|866|87\d|93\d|94\d)"
    r"|koi8-?[ru]|euc-?(?:jp|kr|cn|tw)|shift[-_]?jis|sjis|gb(?:k|2312|18030)|big5|iso-2022-jp)?"
)


class Entry(msgspec.Struct, frozen=True):
    """One path of a tree: git's mode (`100644`, `120000` a link, `160000` a submodule) and the object's name."""

    mode: str
    sha: str


class Repository:
    """One repository, by a folder in it. Every method raises `Problem` and nothing else."""

    def __init__(self, path: Path, *, timeout_s: float = 60.0) -> None:
        self.path = path
        self._timeout_s = timeout_s
        self._objects = Objects(path, timeout_s=timeout_s)
        self._changed: dict[tuple[str, str], tuple[FileChange, ...]] = {}
        self._commits: dict[str, bytes] = {}
        self._begun: dict[tuple[str, ...], Begun] = {}

    @classmethod
    def at(cls, path: Path, *, timeout_s: float = 60.0) -> "Repository":
        """Open the repository that holds a folder."""
        here = cls(path, timeout_s=timeout_s)
        here._objects.start()  # a process of its own, at the same time; an object is the same wherever it is asked for
        top = here._ask("rev-parse", "--show-toplevel")
        if top is None:
            import shutil

            if shutil.which("git") is None:
                raise Problem("git", found="nothing on PATH", wanted="git 2.30 or later", remedy="apt-get install git")
            raise Problem(
                str(path),
                found="no git repository that this user may read",
                wanted="a working tree, with what was committed",
                remedy=f"git -C {shlex.quote(str(path))} status says what is wrong; or name another one with --repo",
            )
        here.path = Path(os.fsdecode(top.removesuffix(b"\n")))
        return here

    def commit(self, ref: str) -> str:
        """Give the full name of a commit."""
        if _REF.fullmatch(ref) is None or ".." in ref:
            raise Problem(
                "git", found=shown(ref), wanted="the name of a commit or a branch", remedy="git branch --all lists them"
            )
        self._one_thing(ref)
        found = self._object(f"{ref}^{{commit}}", cap_bytes=0)
        if found is None:
            raise Problem(
                str(self.path),
                found=f"no commit {ref}",
                wanted="one that was fetched",
                remedy=self._fetching(ref),
            )
        return found.sha

    def _fetching(self, ref: str) -> str:
        """Name the command that brings a ref, also into a clone of one branch, which keeps no other unless it is told where."""
        remotes = (self._ask("remote") or b"").decode("utf-8", "replace").split()
        name = _STEPS.split(ref, maxsplit=1)[0]
        remote, _, branch = name.partition("/")
        if branch and remote in remotes:
            return f"git fetch {remote} {shlex.quote(f'+refs/heads/{branch}:refs/remotes/{name}')}"
        if not remotes:
            return "git branch --all lists the names that there are: give one of them, such as --base main"
        if _HEX.fullmatch(name):
            return f"git fetch {remotes[0]} {name}"
        return f"git fetch {remotes[0]} {shlex.quote(f'{name}:{name}')}"

    def _one_thing(self, ref: str) -> None:
        """Refuse a name of several commits: git takes a tag before a branch, and anybody's before a remote's."""
        name = _STEPS.split(ref, maxsplit=1)[0]
        if name.startswith("refs/") or name.endswith("HEAD") or _HEX.fullmatch(name):
            return
        meant = [f"refs/{kind}{name}" for kind in ("", "tags/", "heads/", "remotes/")]
        meant.append(f"refs/remotes/{name}/HEAD")
        things = ((one, self._object(f"{one}^{{}}", cap_bytes=0)) for one in meant)
        found = {one: thing.sha for one, thing in things if thing is not None}
        if found and _SHORT.fullmatch(name):
            found |= {one: one for one in self._must("rev-parse", f"--disambiguate={name}").decode().split()}
        if len(set(found.values())) > 1:
            raise Problem(
                str(self.path),
                found=f"{len(found)} things called {name}: {', '.join(sorted(found)[:4])}",
                wanted="the name of one commit",
                remedy=f"name it whole, such as {max(found, key=lambda one: one.startswith(('refs/heads/', 'refs/remotes/')))}",
            )

    def merge_base(self, base: str, head: str) -> str:
        """Give the commit at which two lines of work parted."""
        parted, tip = self.commit(base), self.commit(head)
        if self._stands_on(parted, tip):
            return parted
        said = self._ask("merge-base", "--all", parted, tip)
        if said is None:
            shallow = self._ask("rev-parse", "--is-shallow-repository") == b"true\n"
            raise Problem(
                str(self.path),
                found=f"a shallow clone, in which {base} and {head} do not meet"
                if shallow
                else f"no commit that {base} and {head} have in common",
                wanted="the history between them",
                remedy="git fetch --unshallow origin (in CI: fetch-depth: 0)"
                if shallow
                else "name the branch that the change is for: --base origin/main",
            )
        found = said.decode("ascii", "replace").split()
        if len(found) != 1:
            raise Problem(
                str(self.path),
                found=f"{len(found)} commits at which {base} and {head} parted",
                wanted="one",
                remedy=f"git merge {shlex.quote(base)} into the change first",
            )
        return found[0]

    def _stands_on(self, base: str, head: str) -> bool:
        """Whether `base` is found among the nearest commits that `head` is built on: then it is where they parted, and alone is."""
        waiting, seen = [head], {head}
        for sha in waiting:
            if sha == base:
                return True
            if len(seen) < NEAR_COMMITS:
                fresh = [one for one in self._parents(sha) if one not in seen]
                seen.update(fresh)
                waiting += fresh
        return False

    def _parents(self, sha: str) -> list[str]:
        """Give a commit's parents; none where it is not there, as in a shallow clone."""
        found = self._raw(sha)
        head = b"" if found is None else found.partition(b"\n\n")[0]
        return [line[7:].decode("ascii", "replace") for line in head.split(b"\n") if line.startswith(b"parent ")]

    def tree(self, commit: str, *under: str) -> dict[str, Entry]:
        """List the files of a commit, or those under some paths of it."""
        if under:
            return {name: entry for place in under for name, entry in self._below(commit, place.rstrip("/"))}
        found = {}
        for row in self._must(*_whole_tree(commit)).split(b"\0"):
            if row:
                head, _, name = row.partition(b"\t")
                mode, _, sha = head.split(b" ")
                found[os.fsdecode(name)] = Entry(mode.decode(), sha.decode())
        return found

    def _below(self, commit: str, place: str) -> Iterator[tuple[str, Entry]]:
        entry = self._entry(commit, place)
        waiting = [] if entry is None else [(place, entry)]
        while waiting:
            name, entry = waiting.pop()
            if entry.mode != _FOLDER:
                yield name, entry
                continue
            rows = self._rows(self._tree(entry.sha))
            waiting += [(f"{name}/{os.fsdecode(inner)}", one) for inner, one in rows.items()]

    def read(self, commit: str, path: str, *, cap_bytes: int = MAX_BLOB_BYTES) -> bytes | None:
        """Read a file as it was committed; None where there is none of that path. A link or a submodule is no file."""
        if not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
            raise Problem("git", found=shown(path), wanted="a path within the repository", remedy="correct the path")
        # By name from the tree: `COMMIT:PATH` would give a folder's listing, and a link's target, for a file's content.
        entry = self._entry(commit, path)
        if entry is None:
            return None
        if entry.mode not in ("100644", "100755"):
            kind = {"120000": "a link", "160000": "a submodule"}.get(entry.mode, "a folder")
            raise Problem(
                f"{path} at {commit[:12]}", found=kind, wanted="a regular file", remedy="commit the file itself"
            )
        found = self._object(entry.sha, cap_bytes=cap_bytes)
        if found is None or found.content is None:
            raise Problem(
                f"{path} at {commit[:12]}",
                found="an object that is not there, or is too long",
                wanted=f"at most {cap_bytes:,} bytes",
                remedy="git fetch --refetch origin, or cut the file",
            )
        return found.content

    def blobs(
        self,
        shas: Iterable[str],
        *,
        cap_bytes: int = MAX_BLOB_BYTES,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, bytes]:
        """Read objects by name, a few hundred at a time. What is missing or longer than `cap_bytes` is left out."""
        found: dict[str, bytes] = {}
        for sha in sorted({sha for sha in shas if _HEX.fullmatch(sha)}):
            one = self._object(sha, cap_bytes=cap_bytes)
            if one is not None and one.kind == "blob" and one.content is not None:
                found[sha] = one.content
                if progress is not None and len(found) % 500 == 0:
                    progress(len(found))
        if progress is not None:
            progress(len(found))
        return found

    def changed(self, base: str, head: str) -> tuple[FileChange, ...]:
        """List what differs between two commits, without content. A rename is a deletion and an addition."""
        if (base, head) not in self._changed:
            near = self._differing(f"{base}^{{tree}}", f"{head}^{{tree}}")
            if near is not None:
                self._changed[base, head] = near
                return near
            options = ("--raw", "-z", "-r", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv")
            said = self._must("diff-tree", *options, "--ignore-submodules=none", base, head)
            self._changed[base, head] = tuple(_raw(said))
        return self._changed[base, head]

    def _differing(self, base: str, head: str) -> tuple[FileChange, ...] | None:
        """Compare two trees where they differ; None where that is in so many folders that git, which starts for it, is faster."""
        found: dict[bytes, FileChange] = {}
        waiting = [(b"", base, head)]
        for looked, (place, before, after) in enumerate(waiting):
            if looked == NEAR_FOLDERS:
                return None
            old = self._rows(self._tree(before)) if before else {}
            new = self._rows(self._tree(after)) if after else {}
            for name in old.keys() | new.keys():
                (was, folder_was), (now, folder_now) = _told_apart(old.get(name)), _told_apart(new.get(name))
                if folder_was != folder_now:
                    waiting.append((place + name + b"/", folder_was, folder_now))
                if was != now:
                    found[place + name] = _differs(place + name, was, now)
        return tuple(found[path] for path in sorted(found))

    def commits(self, base: str, head: str) -> tuple[Commit, ...]:
        """List the commits of `base..head`, oldest first, with what each one changed. Merges count against each parent."""
        found = [self._with_files(one) for one in self._logged(*_between(base, head))]
        if len(found) > MAX_COMMITS:
            raise Problem(
                str(self.path),
                found=f"more than {MAX_COMMITS:,} commits between {base[:12]} and {head[:12]}",
                wanted="a change that people can have read",
                remedy="name the branch that the change is for: --base origin/main",
            )
        return tuple(found)

    def history(self, head: str, path: str) -> tuple[Commit, ...]:
        """List the commits up to `head` that a file's content comes from, newest first, without what else they changed."""
        if self._ask("rev-parse", "--is-shallow-repository") != b"false\n":
            raise Problem(
                str(self.path),
                found="a shallow clone, or no answer of git",
                wanted=f"all of the history of {path}",
                remedy="git fetch --unshallow origin (in CI: fetch-depth: 0)",
            )
        limit = ("--topo-order", f"--max-count={MAX_COMMITS}")
        return tuple(self._logged(*limit, head, "--", f":(top,literal){path}"))

    def foresee(self, base: str, head: str, *, tree: bool = False) -> None:
        """Start what `commits` of these two will ask of git, and with `tree` what `tree` of the base will, beside other work."""
        for args in (_log(*_between(base, head)), *([_whole_tree(base)] if tree else [])):
            self._begun[args] = begin(self.path, args)

    def _logged(self, *which: str) -> Iterator[Commit]:
        said = self._must(*_log(*which))
        fields = [part.decode("utf-8", "replace") for part in said.split(b"\0")]
        for at in range(0, len(fields) - 1, len(_FIELDS)):  # so many a commit, each with a NUL behind it
            self._text_can_be_told(fields[at])  # before its other fields are counted: those before it held no NUL
            yield _commit(*fields[at : at + len(_FIELDS)])

    def _text_can_be_told(self, sha: str) -> None:
        head = self.raw_commit(sha).partition(b"\n\n")[0]
        for encoding in re.findall(rb"^encoding (.*)$", head, re.MULTILINE):
            if re.fullmatch(_TEXT_IN, encoding.decode("utf-8", "replace"), re.IGNORECASE) is None:
                raise Problem(
                    f"commit {sha[:12]} in {self.path}",
                    found=f"a text that says to be in {shown(encoding.decode('utf-8', 'replace'))}",
                    wanted="UTF-8, or an encoding in which its people's names can be told",
                    remedy="git commit --amend, with i18n.commitEncoding unset",
                )

    def raw_commit(self, sha: str) -> bytes:
        """Read a commit's own bytes, its signature among them."""
        found = self._raw(sha)
        if found is None:
            raise self._no_answer("cat-file")
        return found

    def _raw(self, sha: str) -> bytes | None:
        if sha in self._commits:
            return self._commits[sha]
        found = self._object(sha, cap_bytes=MAX_BYTES) if _HEX.fullmatch(sha) else None
        if found is None or found.kind != "commit" or found.content is None:
            return None
        if len(found.content) <= _KEPT_COMMIT_BYTES and len(self._commits) <= MAX_COMMITS:
            self._commits[sha] = found.content
        return found.content

    def _with_files(self, commit: Commit) -> Commit:
        # A merge is shown against every parent: what none of them had was written in the merge itself, unseen otherwise.
        # So was what a parent had changed since they parted and the merge has not: nobody's work can take that back.
        parents = commit.parents or (_EMPTY_TREE[len(commit.sha)],)
        told = [{one.path: one for one in self.changed(parent, commit.sha)} for parent in parents]
        own = {path: one for path, one in told[0].items() if all(path in other for other in told[1:])}
        if len(parents) > 1 and any(told):
            parted = self._parted(parents)
            for parent, files in zip(parents, told, strict=True):
                changed = {one.path for at in parted for one in self.changed(at, parent)} if files else set()
                own = {**{path: one for path, one in files.items() if path in changed}, **own}
        return msgspec.structs.replace(commit, files=tuple(own[path] for path in sorted(own)))

    def _parted(self, parents: tuple[str, ...]) -> list[str]:
        """Give the commits at which lines of work parted; the tree without a file where they have none in common."""
        how = ("--octopus",) if len(parents) > 2 else ()
        said = self._ask("merge-base", "--all", *how, *parents)
        return said.decode("ascii", "replace").split() if said else [_EMPTY_TREE[len(parents[0])]]

    def _entry(self, commit: str, path: str) -> Entry | None:
        """Walk down from a commit's tree, a folder at a time."""
        at = self._tree(f"{commit}^{{tree}}")
        *folders, name = path.split("/")
        for folder in folders:
            entry = self._rows(at).get(os.fsencode(folder))
            if entry is None or entry.mode != _FOLDER:
                return None
            at = self._tree(entry.sha)
        return self._rows(at).get(os.fsencode(name))

    def _tree(self, name: str) -> Object:
        found = self._object(name, cap_bytes=MAX_BYTES)
        if found is None or found.kind != "tree":
            raise self._no_answer("cat-file")
        return found

    def _rows(self, tree: Object) -> dict[bytes, Entry]:
        """Read a tree's rows: mode, name, NUL, and as many bytes of a name as the tree's own has. One row a name."""
        content, length = tree.content or b"", len(tree.sha) // 2
        rows: dict[bytes, Entry] = {}
        at = 0
        while at < len(content):
            space = content.find(b" ", at)
            end = content.find(b"\0", space)
            name = content[space + 1 : end]
            if not at < space < end <= len(content) - length - 1 or name in rows:
                raise self._no_answer("cat-file")
            sha = content[end + 1 : end + 1 + length].hex()
            rows[name] = Entry(content[at:space].decode("ascii", "replace"), sha)
            at = end + 1 + length
        return rows

    def _object(self, name: str, *, cap_bytes: int) -> Object | None:
        try:
            return self._objects.get(name, cap_bytes=cap_bytes)
        except OSError:
            raise self._no_answer("cat-file") from None

    def _ask(self, *args: str, data: bytes | None = None) -> bytes | None:
        return ask(self.path, args, timeout_s=self._timeout_s, data=data)

    def _must(self, *args: str, data: bytes | None = None) -> bytes:
        begun = self._begun.pop(args, None)
        said = self._ask(*args, data=data) if begun is None else begun.answer(timeout_s=self._timeout_s)
        if said is None:
            raise self._no_answer(args[0])
        return said

    def _no_answer(self, asked: str) -> Problem:
        return Problem(
            f"git {asked} in {self.path}",
            found="no answer that can be used",
            wanted="the objects of both commits, readable, within a minute and 256 MB",
            remedy="git fsck says whether objects are missing; git fetch --unshallow origin brings them, in a partial clone "
            "git fetch --refetch --no-filter origin",
        )


def _log(*which: str) -> tuple[str, ...]:
    return ("log", *_LOG, "-z", f"--format={'%x00'.join(_FIELDS)}", *which)


def _between(base: str, head: str) -> tuple[str, ...]:
    return ("--reverse", "--topo-order", f"--max-count={MAX_COMMITS + 1}", f"{base}..{head}", "--")


def _whole_tree(commit: str) -> tuple[str, ...]:
    return ("ls-tree", "-r", "-z", "--full-tree", commit)


def _told_apart(entry: Entry | None) -> tuple[Entry | None, str]:
    """Give the file of a row, with its mode as git tells it, and the name of its tree where it is a folder."""
    if entry is None or entry.mode == _FOLDER:
        return None, "" if entry is None else entry.sha
    if not entry.mode.startswith("100"):
        return entry, ""
    return Entry("100755" if int(entry.mode, 8) & 0o100 else "100644", entry.sha), ""


def _differs(path: bytes, was: Entry | None, now: Entry | None) -> FileChange:
    how: How = "modified"
    if was is None or now is None:
        how = "added" if was is None else "deleted"
    elif was.mode[:3] != now.mode[:3]:
        how = "retyped"
    return FileChange(
        path=os.fsdecode(path),
        how=how,
        mode_before="" if was is None else was.mode,
        mode_after="" if now is None else now.mode,
        sha_before="" if was is None else was.sha,
        sha_after="" if now is None else now.sha,
    )


def _raw(said: bytes) -> Iterator[FileChange]:
    fields = iter(said.split(b"\0"))
    for head in fields:
        if not head.startswith(b":"):
            continue
        before, after, sha_before, sha_after, how = head[1:].decode("ascii").split(" ")
        yield FileChange(
            path=os.fsdecode(next(fields)),
            how=_HOW[how[0]],
            mode_before=before if before != "000000" else "",
            mode_after=after if after != "000000" else "",
            sha_before="" if sha_before in _NO_OBJECT else sha_before,
            sha_after="" if sha_after in _NO_OBJECT else sha_after,
        )


def _commit(sha: str, author: str, committer: str, parents: str, subject: str, trailers: str) -> Commit:
    pairs = tuple(
        (key.strip(), value.strip())
        for line in trailers.split("\n")
        for key, colon, value in [line.partition(":")]
        if colon
    )
    return Commit(
        sha=sha,
        author=author,
        committer=committer,
        co_authors=tuple(value for key, value in pairs if key.lower() == "co-authored-by"),
        trailers=pairs,
        parents=tuple(parents.split()),
        subject=subject,
    )
