"""Names of an image's environment: from `docker image inspect` and its like, or from a Dockerfile. Values are never kept.

1. A file that ends in .json is an inspection: a list of Docker's objects, or one with `config` as OCI has it. Anything else is read
   as a Dockerfile, and has a FROM.
2. Of a Dockerfile count ENV and ARG of every stage: what an earlier one holds is in the build's history. Its base's own names it
   does not say.
3. `ENV NAME value` is the old form; in the new one pairs stand behind one another, and quotes and backslashes bind.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drillmaster import strict
from drillmaster.errors import Problem, one_line
from drillmaster.gates._leases_evidence import Image
from drillmaster.intake import read_bytes
from drillmaster.strict import shown

__all__ = ["of_dockerfile", "of_inspection", "open_image"]

_CAP_BYTES = 16 << 20
_HOW = "docker image inspect IMAGE > image.json, and --image image.json"
_PAIR = re.compile(
    r"""((?:[^\s=\\"']|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+)=((?:[^\s\\"']|\\.|"(?:[^"\\]|\\.)*"|'[^']*')*)""", re.DOTALL
)
_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
_HEREDOC = re.compile(r"(?:^|\s)[0-9]*<<-?([\"']?)([A-Za-z_][A-Za-z0-9_]*)\1(?=\s|$)")
_QUOTED = re.compile(r"""(?<!<<)(?<!<<-)(?:"(?:[^"\\]|\\.)*"|'[^']*')""")
_WORD = re.compile(r"""(?:[^\s\\"']|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""")


def open_image(path: Path) -> tuple[Image, str]:
    """Read one file; with its digest. Raises Problem."""
    place = str(path)
    data = read_bytes(path, _CAP_BYTES)
    if path.suffix.lower() == ".json":
        names = of_inspection(strict.load(data, place=place, fmt="json"), place)
        return Image(place=one_line(path.name), kind="inspected", names=names), strict.digest_bytes(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Problem(place, found="bytes that are no UTF-8", wanted="a Dockerfile", remedy=_HOW) from None
    names = of_dockerfile(text, place)
    return Image(place=one_line(path.name), kind="dockerfile", names=names), strict.digest_bytes(data)


def of_inspection(value: Any, place: str) -> tuple[str, ...]:
    """Give the names of all images of an inspection. Raises Problem."""
    found: dict[str, None] = {}
    images = value if isinstance(value, list) else [value]
    if not images:
        raise Problem(place, found="an empty list", wanted="an image", remedy=_HOW)
    for image in images:
        config = next((image[one] for one in ("Config", "config") if isinstance(image, dict) and one in image), None)
        if not isinstance(config, dict):
            raise Problem(place, found="an object without Config", wanted="an image, as it was inspected", remedy=_HOW)
        pairs = config.get("Env", config.get("env"))
        if pairs is None and ("Env" in config or "Cmd" in config or "Entrypoint" in config):
            pairs = []  # an image without an environment
        if not isinstance(pairs, list) or not all(isinstance(one, str) for one in pairs):
            raise Problem(
                f"{place}: Config/Env", found=type(pairs).__name__, wanted="a list of NAME=value", remedy=_HOW
            )
        found |= dict.fromkeys(pair.partition("=")[0] for pair in pairs)
    return tuple(found)


def of_dockerfile(text: str, place: str) -> tuple[str, ...]:
    """Give the names that a Dockerfile sets. Raises Problem."""
    escape = "`" if re.match(r"\s*#\s*escape\s*=\s*`", text, re.IGNORECASE) else "\\"
    found: dict[str, None] = {}
    stages = 0
    for line in _logical(text, escape):
        told = _INSTRUCTION.match(line)
        if told is None:
            continue
        word, rest = told[1].upper(), told[2].strip()
        if word == "ONBUILD" and (then := _INSTRUCTION.match(rest)):  # set in whatever is built on it
            word, rest = then[1].upper(), then[2].strip()
        stages += word == "FROM"
        if word == "ARG":
            found |= dict.fromkeys(one for word in _WORD.findall(rest) if (one := _unquoted(word).partition("=")[0]))
        elif word == "ENV":
            found |= dict.fromkeys(_of_env(rest))
    if not stages:
        raise Problem(place, found=shown(text[:30]), wanted="a Dockerfile, which has a FROM", remedy=_HOW)
    return tuple(found)


def _unquoted(word: str) -> str:
    return re.sub(r"""["']""", "", word)


def _of_env(rest: str) -> list[str]:
    first = re.match(r"[^\s=]+", rest)
    if first is not None and not rest[first.end() :].startswith("="):
        return [first[0]]  # the old form: all that follows is the value
    return [pair[1].strip("\"'") for pair in _PAIR.finditer(rest)]


def _logical(text: str, escape: str) -> Iterator[str]:
    """Give instructions, with the lines that go on joined, comments taken out, and texts between heredoc marks left out."""
    held, until = "", ""
    lines = text.removeprefix("\ufeff").splitlines()
    for number, line in enumerate(lines):
        if until:
            until = "" if line.strip() == until else until
            continue
        if line.lstrip().startswith("#") or (held and not line.strip()):
            continue
        held += line
        if held.rstrip().endswith(escape):
            held = held.rstrip()[: -len(escape)] + " "
            continue
        heredoc = _HEREDOC.search(_QUOTED.sub("q", held))
        if heredoc is not None and re.match(r"\s*(?:RUN|COPY|ADD)\b", held, re.IGNORECASE):
            # One that never ends holds nothing: what follows counts.
            until = heredoc[2] if any(one.strip() == heredoc[2] for one in lines[number + 1 :]) else ""
        yield held
        held = ""
    if held:
        yield held
