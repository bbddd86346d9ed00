"""The law of a command that starts a tool: what may stand in it, word by word. Nothing is run to find that out.

1. A command is a list of texts, the program first. One text for the whole is a line for a shell. No word holds a control
   character; the program's holds no quote, no variable and no blank at its ends.
2. The program is on the list, by an absolute path that is written straight (no `..`, no `//`) or by one within the repository
   (`./tools/repo-read`). A bare name is what PATH makes of it: it stands only for the program whose entry says so.
   What lies where anybody can write (`/tmp`, `/dev/shm`, `/proc`) is on no list.
3. A shell is refused, listed or not: by a bare name, in a folder `bin`, or on Windows. A file elsewhere that is called like
   one is judged by the list alone, as long as it is handed no text; so is whatever merely begins or ends like one.
4. An interpreter runs a file, and that file is on the list too. Text to be run (`-c`, `-e`, `--eval`), a module by its name
   (`-m`), a file of the standard input, something to be loaded first (`--require`), and an option whose effect is not known here
   are refused. So is no file at all.
5. A program that runs what it is told (`env`, `xargs`, `sudo`, `ssh`, `make`, `busybox`, ...) is refused, and so is a usual
   one when it is told to (`find -exec`, `git -c`, `tar --to-command`, `vim -c`, `rsync -e`).
6. A launcher (`npx`, `uvx`, `pipx run`, `docker run`) runs a package: the word that says which one has an exact version, or a
   digest where there are digests. A word elsewhere in the command pins nothing. A tag, a range, a branch and another registry
   pin nothing. A program that fetches (`curl`) is no tool.
7. A container sees nothing of the host: no folder of it, no device, no namespace, no privilege, no socket.
8. What `${...}` stands for is known to nobody who reads the command: it decides neither program nor file nor package.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator

import msgspec

from drillmaster.rules.argv._launchers import LAUNCHERS, launched
from drillmaster.rules.argv._programs import (
    FETCHES,
    INTERPRETERS,
    REMOTE,
    RUNS_OTHERS,
    SHELLS,
    told_to_run,
)
from drillmaster.rules.argv._words import Fault, named, printable
from drillmaster.strict import shown

__all__ = ["Fault", "Listed", "Program", "faults", "within"]

MAX_WORDS = 256
MAX_CHARS = 32_768

_WINDOWS = r"[A-Za-z]:[\\/]|\\\\"
_SYSTEM = r"(?i)/(.*/)?s?bin/[^/]+|(/usr)?/lib(32|64)?/.*|/nix/.*|[A-Za-z]:[\\/].*|\\\\.*|.*\.exe"
_OPEN = ("/tmp/", "/var/tmp/", "/dev/", "/proc/", "/run/user/", "/sys/", "/private/tmp/")  # noqa: S108 - refused, not used
_HERE = r"\$\{(workspaceFolder|CLAUDE_PROJECT_DIR(:-\.)?|CLAUDE_PLUGIN_ROOT)\}(?=/|$)"


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file that may be run: its path, absolute or from the root of the repository, and its digest.

    `called` are the bare names that stand for it, as `node` for `/usr/bin/node`: then PATH decides what runs, and only the
    machine's owner can know that it is this one.
    """

    path: str
    sha256: str
    called: tuple[str, ...] = ()


class Listed:
    """The programs of a policy, found by how a command calls them."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self.by_path: dict[str, Program] = {}
        self.by_name: dict[str, Program] = {}
        for program in programs:
            self.by_path[within(program.path) or program.path] = program
            for name in program.called:
                self.by_name[name] = program

    def program(self, word: str) -> Program | None:
        """Find the program that a first word means."""
        if "/" in word or "\\" in word:
            return self.file(word)
        return self.by_name.get(word)

    def file(self, word: str) -> Program | None:
        """Find the file that a word means to an interpreter, which does not look along PATH."""
        return self.by_path.get(within(word) or word)


def within(word: str) -> str | None:
    """Give a path from the root of the repository, straight: `tools/a.js` for `./tools/a.js`. None where it leads elsewhere."""
    word = re.sub(_HERE, ".", word)
    if not word or word.startswith(("/", "~", "\\")) or re.match(r"[A-Za-z]:", word) or "$" in word or "\\" in word:
        return None
    straight = posixpath.normpath(word)
    return None if straight == ".." or straight.startswith("../") or ".." in word.split("/") else straight


def faults(command: object, listed: Listed) -> tuple[Fault, ...]:
    """Say why a command may not start a tool, in the order of its words. Nothing: it may."""
    shape = tuple(_shape(command))
    if shape:
        return shape
    assert isinstance(command, list | tuple)
    return tuple(dict.fromkeys(_judge([str(word) for word in command], listed)))


def _shape(command: object) -> Iterator[Fault]:
    if isinstance(command, str):
        word = (command.split() or [""])[0]
        yield Fault("shell", 0, f"one text, {printable(word)} and what follows, which only a shell can take apart")
        return
    if not isinstance(command, list | tuple):
        yield Fault("shape", 0, f"{shown(command)}, where a list of texts is wanted")
        return
    if not command:
        yield Fault("shape", 0, "an empty list")
        return
    for at, word in enumerate(command):
        if not isinstance(word, str):
            yield Fault("shape", at, f"{shown(word)} among the words")
        elif any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in word):
            yield Fault("shape", at, f"a character that cannot be seen in {printable(word)}")
    if len(command) > MAX_WORDS or sum(len(word) for word in command if isinstance(word, str)) > MAX_CHARS:
        yield Fault("shape", 0, f"{len(command)} words, more than anybody reads")
    first = command[0]
    if isinstance(first, str) and not first.strip():
        yield Fault("shape", 0, "no program")


def _judge(words: list[str], listed: Listed) -> Iterator[Fault]:
    first = words[0]
    windows = re.match(_WINDOWS, first) is not None
    # Outside Windows a shell drops quotes and backslashes, and ends a word at its signs: b\ash and ba''sh are bash.
    bare = re.sub(r"[\"'`^]" if windows else r"[\"'`^\\]", "", first).strip()
    name = named(re.split(r"[;&|<>\s]", bare)[0] if not windows else bare)
    if bare != first:
        yield Fault("shape", 0, f"quotes or blanks in the program {printable(first)}")
    elif re.search(r"[;&|<>`*?]|\$\(", first):
        yield Fault("shape", 0, f"signs of a shell in the program {printable(first)}")
    own = within(first)
    is_system = ("/" not in bare and "\\" not in bare) or re.fullmatch(_SYSTEM, bare) is not None
    if "$" in re.sub(_HERE, "", first):
        yield Fault("variable", 0, f"{printable(first)}, which is known to nobody before it runs")
    elif not own and ("//" in first or ".." in re.split(r"[/\\]", first) or "/./" in first or first.startswith("~")):
        yield Fault("unclean", 0, f"{printable(first)}, a path that is not written straight")
    if first.startswith(_OPEN):
        yield Fault("unlisted", 0, f"{printable(first)}, which lies where anybody can write")
    if name in SHELLS and (is_system or _takes_text(words)):
        yield Fault("shell", 0, f"{printable(first)}, a shell")
        return
    if is_system:
        yield from _system(name, words, listed)
    else:
        # A file that is called like an interpreter and told to run text does what an interpreter does.
        if name in INTERPRETERS and own is None:
            yield from _interpreted(name, words, 0, listed)
        elif name in LAUNCHERS and own is None:
            yield from launched(name, words)
    program = listed.program(first)
    if program is None:
        if "/" not in first and "\\" not in first:
            yield Fault("not-absolute", 0, f"{printable(first)}, which PATH decides")
        else:
            yield Fault("unlisted", 0, f"{printable(first)}, which is not on the list of programs")


def _system(name: str, words: list[str], listed: Listed) -> Iterator[Fault]:
    if name in RUNS_OTHERS:
        yield Fault("runs-others", 0, f"{printable(words[0])}, which runs what it is told")
    elif name in REMOTE:
        yield Fault("runs-others", 0, f"{printable(words[0])}, which runs it elsewhere")
    elif name in FETCHES:
        yield Fault("fetches", 0, f"{printable(words[0])}, which fetches")
    elif name in LAUNCHERS:
        yield from launched(name, words)
    elif name in INTERPRETERS:
        yield from _interpreted(name, words, 0, listed)
    else:
        yield from told_to_run(name, words)


def _takes_text(words: list[str]) -> bool:
    return any(re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*|/[ck]", word, re.IGNORECASE) for word in words[1:])


def _interpreted(name: str, words: list[str], start: int, listed: Listed) -> Iterator[Fault]:
    """Rule 4: options that are known to change nothing, then one file that is on the list."""
    how = INTERPRETERS[name]
    at = start + 1
    if how.verbs and at < len(words) and words[at] in how.verbs:
        at += 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        word = words[at]
        if word == "-":
            yield Fault("evaluates", at, "a program from the standard input")
            return
        if how.plain and len(word) == 2 and re.fullmatch(how.plain, "".join(words[at : at + 2])):
            at += 2
            continue
        if how.evaluates(word):
            yield Fault("evaluates", at, f"{printable(word)}, which runs text or loads something first")
            return
        if word in how.before_file:
            at += 1
            break
        if not how.harmless(word):
            yield Fault("option", at, f"{printable(word)}, an option whose effect on what runs is not known here")
            return
        at += 1
    if at < len(words) and words[at] == "--":
        at += 1
    if at >= len(words):
        yield Fault("evaluates", at, f"{printable(words[start])} without a file, which runs what it reads")
        return
    file = words[at]
    if "$" in re.sub(_HERE, "", file):
        yield Fault("variable", at, f"{printable(file)}, which is known to nobody before it runs")
    elif re.match(r"[a-z][a-z0-9+.-]*:(?!\\)", file, re.IGNORECASE) and not re.match(r"[A-Za-z]:[\\/]", file):
        yield Fault("unpinned", at, f"{printable(file)}, an address, which is fetched anew")
    elif listed.file(file) is None:
        yield Fault("unlisted", at, f"{printable(file)}, which is not on the list of programs")
