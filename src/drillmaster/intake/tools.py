"""Evidence of the gate `tools`: the allow-list and what lies around it, from the disk or from the commits of a change.

1. Without a base everything is read from the disk. With one, the list, the clients' configurations and the programs of the
   repository are those of the change's head, and what they are compared with is where the change began.
2. Clients' configurations are looked for where clients look, at the root and beside the list, and wherever the change
   touches one. `--config` names others.
3. What servers offer lies in `tools.offered/SERVER.json` beside the list, or is named: `--offered SERVER=FILE`.
4. `--live` starts a server by the words that the list *of the base* has, with the base's own files, once those words and the
   digests of its programs have been judged by the policy. Nothing of the change is run.
"""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem, Refused
from drillmaster.gates import Gate
from drillmaster.gates._tools_contract import of_command
from drillmaster.gates.tools import Config, FileFact, Listing, Live, Offered, Tools, ToolsGate
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.judging import Asked, Gathered, inside
from drillmaster.intake.mcp_files import CAP_BYTES, CONFIGS, config_of, is_config, leads_to_config, lies_at, offered_of
from drillmaster.rules import argv
from drillmaster.strict import shown

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority
    from drillmaster.intake.mcp_live import Bounds

__all__ = ["OFFERED_FOLDER", "ToolsIntake", "file_fact", "from_the_root", "offered_at"]

OFFERED_FOLDER = "tools.offered"
_PROGRAM_CAP_BYTES = 1 << 30
_TREE_CAP_FILES = 20_000
_FILES = ("100644", "100755")


class ToolsIntake:
    """One allow-list, and what the command line named around it."""

    def __init__(
        self,
        path: str,
        *,
        offered: tuple[str, ...] = (),
        configs: tuple[str, ...] = (),
        live: str | None = None,
        bounds: "Bounds | None" = None,
    ) -> None:
        self.path = path
        self._offered = offered
        self._configs = configs
        self._live = live
        self._bounds = bounds

    def gather(self, gate: Gate[Any], asked: Asked, authority: "Authority | None") -> Gathered:
        assert isinstance(gate, ToolsGate)
        source: _Disk | _Commits = _Disk(self.path, asked.repo) if authority is None else _Commits(self.path, authority)
        if self._live is not None and not isinstance(source, _Commits):
            raise Refused(
                "--live",
                found="no base",
                wanted="the ref whose list says how the server is started: never the list that is judged",
                remedy="add --base origin/main",
            )
        configs = tuple(config_of(place, data) for place, data in source.configs(self._configs))
        offered = tuple(
            one for server, place, data in source.offered(self._offered) for one in offered_of(place, data, server)
        )
        programs = {one.path: source.program(one.path) for one in gate.programs if source.looks_at(one.path, gate)}
        live = None
        if self._live is not None and isinstance(source, _Commits):
            live = source.ask(self._live, gate, self._bounds)
        signing, why, signers = source.signing()
        file = source.fact if gate.place == "repository" else source.on_disk()
        evidence = Tools(
            listing=source.listing,
            now_ns=asked.now_ns,
            file=file,
            committed=source.committed,
            signing=signing,
            signing_why=why,
            signers=signers,
            configs=configs,
            offered=offered,
            programs=programs,
            before=source.before,
            configs_before=source.configs_before(),
            lane=source.lane,
            touched=source.touched,
            live=live,
        )
        stamps = [] if signing != "not demanded" else ["UNSIGNED"]
        if gate.wire == "pinned" and not source.listing.ours and not source.listing.missing:
            stamps.append("NO PINS")
        if gate.place == "repository":
            stamps.append("REPOSITORY ONLY")
        return Gathered(
            evidence=evidence,
            subject=source.place,
            digest=_digest(evidence),
            counts={
                "tools": len(source.listing.tools),
                "servers": sum(len(_groups(one)) for one in configs),
                "configurations": len(configs),
                "offered": len(offered) + (len(live.tools) if live is not None else 0),
                "programs": len(programs),
            },
            stamps=tuple(stamps),
        )


def _groups(config: Config) -> list[Any]:
    from drillmaster.gates._tools_evidence import servers_of

    return servers_of(config)[0]


def _digest(evidence: Tools) -> str:
    """Digest all that was read: values where JSON was, digests where files were."""
    plain = {
        "list": [evidence.listing.value, evidence.listing.missing],
        "configs": [[one.place.encode("utf-8", "backslashreplace").decode(), one.value] for one in evidence.configs],
        "offered": [[one.server, one.tool] for one in evidence.offered],
        "live": [] if evidence.live is None else [*evidence.live.tools],
        "programs": {path: [fact.kind, fact.sha256] for path, fact in evidence.programs.items()},
    }
    return strict.digest(plain)


def _read_list(place: str, data: bytes) -> Listing:
    return Listing(place=place, value=strict.load(data, place=place, fmt="json", cap_bytes=CAP_BYTES))


class _Disk:
    """Rule 1, without a base."""

    lane = None
    touched: tuple[str, ...] = ()
    before = None
    committed = ""

    def __init__(self, path: str, repo: Path) -> None:
        self.place = path
        self._root = Path(path).parent
        self._repo = repo
        self.fact = file_fact(Path(path))
        if is_there(path):
            self.listing = _read_list(path, read_bytes(path, CAP_BYTES))
        else:
            self.listing = Listing(place=path, missing=f"{path} is not there")

    def on_disk(self) -> FileFact:
        return self.fact

    def configs(self, named: Iterable[str]) -> list[tuple[str, bytes]]:
        found: dict[str, None] = {}
        for folder in (self._root, self._repo):
            for one in CONFIGS:
                at = sorted(folder.glob(one)) if "*" in one else [folder / one]
                found |= {os.fspath(path): None for path in at if is_there(path)}
        places = dict.fromkeys([*(os.path.normpath(one) for one in found), *named])
        return [(one, read_bytes(one, CAP_BYTES)) for one in places]

    def configs_before(self) -> tuple[Config, ...]:
        return ()

    def offered(self, named: Iterable[str]) -> list[tuple[str, str, bytes]]:
        folder = self._root / OFFERED_FOLDER
        beside = sorted(folder.glob("*.json")) if folder.is_dir() else []
        pairs = [(one.stem, os.fspath(one)) for one in beside] + [_named(one) for one in named]
        return [(server, place, read_bytes(place, CAP_BYTES)) for server, place in pairs]

    def looks_at(self, path: str, gate: ToolsGate) -> bool:
        return gate.place == "host" or argv.within(path) is not None

    def program(self, path: str) -> FileFact:
        local = argv.within(path)
        return file_fact(Path(path) if local is None else self._root / local, digest=True)

    def signing(self) -> tuple[Any, str, tuple[str, ...]]:
        return "not demanded", "", ()


class _Commits:
    """Rule 1, with a base."""

    def __init__(self, path: str, authority: "Authority") -> None:
        self._authority = authority
        self._repo = authority.repo
        if authority.head is None or authority.fork is None:
            raise Problem("--head", found="nothing", wanted="the commit that is judged", remedy="add --head HEAD")
        self._head, self._fork = authority.head, authority.fork
        self.place = self._inside(path)
        self._folder = os.fspath(PurePosixPath(self.place).parent)
        diff = authority.diff()
        self.lane = diff.lane
        mine = {self.place}
        self.touched = tuple(
            one
            for one in diff.paths()
            if one in mine or is_config(one) or re.fullmatch(re.escape(self.place) + r"(\.\w+)?\.sig", one)
        )
        self.listing, self.fact = self._list(self._head)
        self.committed = ""
        self.before = self._list(self._fork)[0]

    def on_disk(self) -> FileFact:
        """On the machine that the agent runs on, the file that its loader reads; it has to be the one that was committed."""
        path = self._repo.path / self.place
        self.committed = self.fact.sha256
        fact = file_fact(path)
        if fact.kind not in ("file", "link"):
            return fact
        return msgspec.structs.replace(fact, sha256=strict.digest_bytes(read_bytes(path, CAP_BYTES)))

    def _inside(self, path: str) -> str:
        place = inside(self._authority, path)
        if place is None:
            raise Problem(
                path,
                found="a file outside the repository",
                wanted="one that the change could have touched",
                remedy=f"name one below {self._repo.path}, or judge it without --base",
            )
        return place

    def _list(self, commit: str) -> tuple[Listing, FileFact]:
        place = self.place
        entry = self._repo.tree(commit, place).get(place)
        if entry is None:
            return Listing(place=place, missing=f"{place} is not there at {commit[:12]}"), FileFact(kind="absent")
        if entry.mode not in _FILES:
            fact = FileFact(kind="link" if entry.mode == "120000" else "other")
            return Listing(place=place, missing=f"{place} is no regular file at {commit[:12]}"), fact
        data = self._repo.read(commit, place, cap_bytes=CAP_BYTES) or b""
        listing = Listing(place=place, value=_read_list(f"{place} at {commit[:12]}", data).value)
        return listing, FileFact(kind="file", sha256=strict.digest_bytes(data))

    def configs(self, named: Iterable[str]) -> list[tuple[str, bytes]]:
        places = [*self._config_places(self._head), *(self._inside(one) for one in named)]
        found = []
        for place in dict.fromkeys(places):
            data = self._repo.read(self._head, place, cap_bytes=CAP_BYTES)
            if data is None:
                raise Problem(
                    place,
                    found=f"nothing at {self._head[:12]}",
                    wanted="a client's configuration",
                    remedy="correct the path",
                )
            found.append((place, data))
        return found

    def configs_before(self) -> tuple[Config, ...]:
        found = []
        for place in self._config_places(self._fork):
            try:
                data = self._repo.read(self._fork, place, cap_bytes=CAP_BYTES)
                found.append(config_of(place, data or b""))
            except Problem:
                continue  # what could not be read before is new now, whatever it was
        return tuple(found)

    def _config_places(self, commit: str) -> list[str]:
        tree = self._repo.tree(commit)
        hidden = [one for one, entry in tree.items() if entry.mode not in _FILES and leads_to_config(one)]
        if hidden and commit == self._head:
            raise Problem(
                f"{hidden[0]} at {commit[:12]}",
                found="a link or a submodule where a client looks for its configuration",
                wanted="a folder, with what is in it committed",
                remedy=f"git rm --cached {hidden[0]}, and commit the files themselves",
            )
        return sorted(
            one for one in tree if lies_at(one, ("", self._folder)) or (one in self.touched and is_config(one))
        )

    def offered(self, named: Iterable[str]) -> list[tuple[str, str, bytes]]:
        folder = os.path.normpath(f"{self._folder}/{OFFERED_FOLDER}")
        found = []
        for place in sorted(self._repo.tree(self._head, folder)):
            if place.endswith(".json") and place.rpartition("/")[0] == folder:
                data = self._repo.read(self._head, place, cap_bytes=CAP_BYTES)
                found.append((PurePosixPath(place).stem, place, data or b""))
        for one in named:  # what a person asked the server for just now is on the disk
            server, place = _named(one)
            found.append((server, place, read_bytes(place, CAP_BYTES)))
        return found

    def looks_at(self, path: str, gate: ToolsGate) -> bool:
        return gate.place == "host" or argv.within(path) is not None

    def program(self, path: str) -> FileFact:
        local = argv.within(path)
        return file_fact(Path(path), digest=True) if local is None else self._committed(self._head, local)

    def _committed(self, commit: str, path: str) -> FileFact:
        place = os.path.normpath(f"{self._folder}/{path}")
        entry = self._repo.tree(commit, place).get(place)
        if entry is None:
            return FileFact(kind="absent")
        if entry.mode not in _FILES:
            return FileFact(kind="link" if entry.mode == "120000" else "other")
        return FileFact(kind="file", sha256=strict.digest_bytes(self._repo.read(commit, place) or b""))

    def signing(self) -> tuple[Any, str, tuple[str, ...]]:
        if self._authority.allowed is None:
            return "not demanded", "", ()
        if self.listing.missing:
            return "refused", self.listing.missing, ()
        data = self._repo.read(self._head, self.place, cap_bytes=CAP_BYTES) or b""
        signatures = self._authority.signatures(self._head, self.place)
        makers = self.lane.people if self.place in self.touched else ()
        try:
            signers = self._authority.people_who_signed(self.place, data, signatures, but_not=makers)
        except Refused as refused:
            return "refused", f"found {refused.found}, wanted {refused.wanted}", ()
        return "held", "", tuple(one.identity for one in signers)

    # Rule 4

    def ask(self, name: str, gate: ToolsGate, bounds: "Bounds | None") -> Live:
        """Start a server as the base's list says, and read what it offers. Raises Problem."""
        from drillmaster.intake.mcp_ending import emptied
        from drillmaster.intake.mcp_live import Bounds, ask_server

        base = self._authority.base
        listing = self._list(base)[0]
        command, env = _started_by(name, listing, base)
        wrong = [one.found for one in of_command(command, name, gate)]
        if wrong:
            raise Refused(
                f"--live {name}",
                found=f"a command of the base that the policy does not let run: {'; '.join(wrong[:3])}",
                wanted="one whose every word was judged",
                remedy="mend the list at the base first",
            )
        with emptied("drillmaster-live-") as scratch:
            folder = scratch / "tree"
            folder.mkdir()
            if any(argv.within(word) is not None and gate.listed().file(word) is not None for word in command):
                self._lay_out(base, folder)
            words = [self._resolved(word, gate, folder, at == 0, base) for at, word in enumerate(command)]
            return ask_server(name, words, folder=folder, env=env, bounds=bounds or Bounds())

    def _resolved(self, word: str, gate: ToolsGate, folder: Path, is_program: bool, base: str) -> str:
        """Give the word to run by: the listed program's own path, whose digest is the one that was signed."""
        listed = gate.listed()
        program = listed.program(word) if is_program else listed.file(word)
        if program is None:
            return word
        local = argv.within(program.path)
        fact = file_fact(Path(program.path), digest=True) if local is None else self._committed(base, local)
        if fact.sha256.removeprefix("sha256:") != program.sha256.removeprefix("sha256:"):
            raise Refused(
                f"--live: {program.path}",
                found="no such file" if fact.kind == "absent" else f"digest {fact.sha256[-64:][:12]}",
                wanted=f"the file that was pinned, {program.sha256[-64:][:12]}",
                remedy=f"sha256sum {program.path}; then have the policy's owner pin it again",
            )
        return program.path if local is None else os.fspath(folder / local)

    def _lay_out(self, commit: str, folder: Path) -> None:
        """Write the base's files below the list's folder, for a server that lives in the repository. Links are left out."""
        under = [] if self._folder in ("", ".") else [self._folder]
        tree = {path: entry for path, entry in self._repo.tree(commit, *under).items() if entry.mode in _FILES}
        if len(tree) > _TREE_CAP_FILES:
            raise Problem(
                "--live",
                found=f"{len(tree):,} files beside the list at the base",
                wanted=f"at most {_TREE_CAP_FILES:,}, which are laid out for the server",
                remedy="keep the list in the folder of the tools",
            )
        blobs = self._repo.blobs(entry.sha for entry in tree.values())
        for path, entry in tree.items():
            target = folder / os.path.relpath(path, self._folder or ".")
            if entry.sha in blobs and ".." not in target.relative_to(folder).parts:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(blobs[entry.sha])
                target.chmod(0o755 if entry.mode == "100755" else 0o644)


def _started_by(name: str, listing: Listing, base: str) -> tuple[list[str], dict[str, str]]:
    """Find the words that start a server, and what it is given besides, in the list of the base."""
    entry = (
        listing.server(name) if listing.ours else next((one for one in listing.tools if one.get("name") == name), None)
    )
    known = [str(one.get("name")) for one in (listing.servers if listing.ours else listing.tools)]
    if entry is None:
        near = strict.near(name, known)
        raise Problem(
            f"--live {name}",
            found=listing.missing
            or f"no {'server' if listing.ours else 'tool'} of that name at the base ({base[:12]})",
            wanted=f"one of {', '.join(known) or 'none'}",
            remedy=f"did you mean {near}?" if near else "merge its contract first: what a change brings is not run",
        )
    command = entry.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise Problem(
            f"--live {name}",
            found=f"command {shown(command)}" if "url" not in entry else "a server elsewhere",
            wanted="a local server, by a list of words",
            remedy="keep the answer of a server elsewhere in a file, and give --offered SERVER=FILE",
        )
    env = entry.get("env")
    given = (
        {key: one for key, one in env.items() if isinstance(one, str) and "$" not in one}
        if isinstance(env, dict)
        else {}
    )
    return list(command), given


def _named(text: str) -> tuple[str, str]:
    """Take `SERVER=FILE` apart; a file alone belongs to the server it is called after."""
    server, equals, path = text.partition("=")
    if equals and server and "/" not in server and path:
        return server, path
    return "", text


def file_fact(path: Path, *, digest: bool = False) -> FileFact:
    """Say what lies at a path, without following a link at its end; `digest` reads it, through one. Raises Problem."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return FileFact(kind="absent")
    except (OSError, ValueError) as error:
        raise Problem(
            os.fspath(path), found=str(error), wanted="a file that can be looked at", remedy=f"ls -l {path.parent}"
        ) from None
    is_link = stat.S_ISLNK(status.st_mode)
    if digest and is_link:  # as `/usr/bin/python3` is one: what is run is where it leads
        try:
            status = path.stat()
        except OSError:
            return FileFact(kind="absent")
        is_link = False
    if not is_link and not stat.S_ISREG(status.st_mode):
        return FileFact(kind="other", mode=status.st_mode, uid=status.st_uid)
    sha256 = strict.digest_bytes(read_bytes(path, _PROGRAM_CAP_BYTES)) if digest else ""
    return FileFact(
        kind="link" if is_link else "file",
        mode=status.st_mode,
        uid=status.st_uid,
        sha256=sha256,
        above=_above(path),
    )


def _above(path: Path) -> tuple[tuple[int, int], ...]:
    """Look at every folder on the way, as it is written and as it is resolved, and at links among them."""
    written = path.absolute()
    places = dict.fromkeys([*written.parents, *written.parent.resolve().parents, written.parent.resolve()])
    found = []
    for place in places:
        status = place.lstat()
        found.append((status.st_mode, status.st_uid))
    return tuple(found)


def from_the_root(path: str, repo: Path) -> str:
    """Name a path from the root of the repository that holds `repo`; as it is where it lies outside."""
    from drillmaster.intake.git import Repository

    top = Repository.at(repo).path.resolve()
    written = Path(os.path.normpath(Path.cwd().resolve() / path))
    return written.relative_to(top).as_posix() if written.is_relative_to(top) else path


def offered_at(path: str) -> tuple[Offered, ...]:
    """Read one file of what a server offers; `SERVER=FILE` or a file called after the server. Raises Problem."""
    server, place = _named(path)
    return offered_of(place, read_bytes(place, CAP_BYTES), server or Path(place).stem)
