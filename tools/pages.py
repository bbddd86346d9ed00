"""Check the pages that people read: `python -m tools.pages`, exit 0 or 1.

1. A relative link leads to a file of the repository, and its anchor to a heading there.
2. A `drillmaster` command names verbs and options that exist; NAME, VERB and the like stand for any verb.
3. A page of docs/ that speaks of a verdict also says what it does not prove.
4. `make TARGET` names a target of the Makefile.
5. No file of the repository holds a word that belongs to one machine or to the making of it.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tools.reference import MADE, commands

__all__ = ["anchor", "findings", "main", "of_commands", "of_links", "of_words"]

ROOT = Path(__file__).resolve().parent.parent

# In two halves, so that this file does not hold what it forbids.
FORBIDDEN = tuple(
    re.compile("".join(halves))
    for halves in (
        (r"/wo", r"rk/(?:main|shared|\.library)"),
        (r"/tmp/", r"claude"),
        (r"/ro", r"ot/\.pyenv"),
        (r"pypi", r"\.org|files\.python", r"hosted"),
        (r"registry\.", r"npmjs"),
        (r"deb\.", r"debian\.org"),
        (r"(?i)\bsub-?", r"agents?\b"),
        (r"(?i)\bissues? #?", r"\d"),
        (r"b3BlbnNzaC1r", r"ZXktdjE"),  # how the body of an OpenSSH private key begins
        (r"\bsk-(?:proj-|ant-)?[A-Za-z0-9]", r"{32,}"),
    )
)
NO_PROOF = re.compile(r"(?i)not prove|proves? nothing|no proof|cannot show|not show|does not say")
SPAN = re.compile(r"`(drillmaster\s[^`]+)`")
ANY_VERB = {"NAME", "VERB", "GATE", "GUARD", "..."}
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.S | re.M)


def anchor(heading: str) -> str:
    """Spell a heading as the part of a link behind `#`, the way GitHub does."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _prose(text: str) -> str:
    return FENCE.sub("", text)


def of_links(page: Path, text: str) -> Iterator[str]:
    """Yield each relative link that leads nowhere."""
    for target in LINK.findall(_prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, part = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists():
            yield f"{page}: the link {target} leads to no file"
        elif part and there.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", _prose(there.read_text("utf-8")), re.M)
            if part not in map(anchor, headings):
                yield f"{page}: the link {target} leads to no heading"


def _lines(text: str) -> Iterator[str]:
    """Yield the commands of a page, continued lines joined, prompts and comments taken off."""
    for block in [*FENCE.findall(text), *(" ".join(span.split()) for span in SPAN.findall(_prose(text)))]:
        for line in block.replace("\\\n", " ").splitlines():
            bare = line.strip().removeprefix("$ ")
            if re.match(r"(?:\S*/)?drillmaster\s", bare):
                yield bare


def _is_of_verbs(command: click.Command) -> bool:
    """Whether a verb of its own has to follow. A group that parses its words by itself may know others."""
    return isinstance(command, click.Group) and not command.invoke_without_command and not command.params


def of_commands(page: Path, text: str, known: dict[str, click.Command]) -> Iterator[str]:
    """Yield each `drillmaster` command whose verb or option does not exist."""
    for line in _lines(text):
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)[1:]
        except ValueError as why:
            yield f"{page}: {line!r} is no shell line: {why}"
            continue
        cut = next((i for i, word in enumerate(words) if word in {"|", "||", "&&", ";", "&", ">", "2>"}), len(words))
        words = words[:cut]
        path = "drillmaster"
        while words and f"{path} {words[0]}" in known:
            path = f"{path} {words.pop(0)}"
        command = known.get(path)  # None: no verb was named
        if words and not words[0].startswith("-") and (command is None or _is_of_verbs(command)):
            if words[0] not in ANY_VERB and (command is None or type(command).parse_args is click.Group.parse_args):
                yield f"{page}: {line!r} names no verb there is"
            continue
        if command is None:
            if not words:
                yield f"{page}: {line!r} names no verb there is"
            continue
        options = {name for p in command.params if isinstance(p, click.Option) for name in [*p.opts, *p.secondary_opts]}
        for word in words[: words.index("--")] if "--" in words else words:
            name = word.partition("=")[0]
            if re.match(r"--?[a-z]", name) and name not in options | {"--help", "-h"}:
                yield f"{page}: {line!r}: {path} has no option {name}"


def of_make(page: Path, text: str, targets: set[str]) -> Iterator[str]:
    """Yield each `make` target that the Makefile does not have."""
    for block in [*FENCE.findall(text), *re.findall(r"`(make [^`]*)`", text)]:
        for line in block.splitlines():
            match = re.match(r"\s*(?:\$ )?make ((?:[a-z0-9-]+ ?)+)(?:#.*)?$", line)
            for target in match[1].split() if match else ():
                if target not in targets:
                    yield f"{page}: make {target} is no target"


def of_words(name: str, text: str) -> Iterator[str]:
    """Yield each line that holds a word which must not be in the repository."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in FORBIDDEN:
            match = pattern.search(line)
            if match:
                yield f"{name}:{number}: {match[0]!r} does not belong in the repository"


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:  # a release unpacked without its history
        there = (path for path in ROOT.rglob("*") if path.is_file())
        return [p for p in there if all(not x.startswith(".") or x == ".ci" for x in p.relative_to(ROOT).parts)]
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def findings() -> list[str]:
    """List everything that a page or file gets wrong."""
    known = dict(commands())
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    found = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text("utf-8")
        found += [*of_links(page, text), *of_commands(page, text, known), *of_make(page, text, targets)]
        for_readers = page.name != "CHANGELOG.md" and page.parent.name != "decisions" and MADE not in text
        if for_readers and re.search(r"(?i)verdict", text) and not NO_PROOF.search(text):
            found.append(f"{page}: speaks of a verdict and does not say what it does not prove")
    for path in _tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += of_words(str(path), text)
    return [line.replace(f"{ROOT}/", "") for line in found]


def main() -> int:
    """Print the findings; 0 when there is none."""
    found = findings()
    print("\n".join(found) or "pages: links, commands and words hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
