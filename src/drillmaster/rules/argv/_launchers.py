"""Launchers: programs that fetch a package or an image and run it. The word that says which one must pin it."""

import re
from collections.abc import Callable, Iterator

from drillmaster.rules.argv._programs import FETCHES, INTERPRETERS, REMOTE, RUNS_OTHERS
from drillmaster.rules.argv._words import Fault, named, printable

__all__ = ["LAUNCHERS", "launched"]

_NPM = r"(?i)(@[a-z0-9~_.-]+/)?[a-z0-9~_.-]+@[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"
_PYPI = (
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9,._ -]+\])?(==|===|@)"
    r"[0-9]+!?[0-9A-Za-z.]*(\.[0-9A-Za-z]+)+(\+[0-9A-Za-z.]+)?"
)
_COMMIT = r"(git\+https://|github:|https://)[^\s#@]+[#@]([0-9a-f]{40}|[0-9a-f]{64})(#.*)?"
_IMAGE = r"[a-z0-9][a-zA-Z0-9._/:-]*@sha256:[0-9a-f]{64}"
_GO = r"[a-z0-9.-]+\.[a-z]+/[^\s@]+@v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[a-z]+)?"
_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "busybox", "env", "cmd", "pwsh", "powershell"})


MAX_PACKAGE = 300
"""Characters of the word that names a package; the patterns here take a square of it."""


def _npm(text: str) -> bool:
    return len(text) <= MAX_PACKAGE and bool(re.fullmatch(_NPM, text) or (re.fullmatch(_COMMIT, text) and "#" in text))


def _pypi(text: str) -> bool:
    if len(text) > MAX_PACKAGE or text.endswith(".*"):
        return False
    return bool(re.fullmatch(_PYPI, text) or (re.fullmatch(_COMMIT, text) and text.startswith("git+")))


Pins = Callable[[str], bool]
_Walk = tuple[frozenset[str], frozenset[str], frozenset[str], Pins]
# Each with the words before the package: options without a value, options with one, those that name packages, and the rest refuses.
_NPX: _Walk = (
    frozenset({"-y", "--yes", "-q", "--quiet", "--no-install", "--silent", "--prefer-offline", "--offline", "--bun"}),
    frozenset(),
    frozenset({"-p", "--package"}),
    _npm,
)
_UVX: _Walk = (
    frozenset(
        {
            "-q",
            "--quiet",
            "--isolated",
            "--no-progress",
            "--offline",
            "--no-config",
            "--native-tls",
            "--no-env-file",
            "--refresh",
            "--managed-python",
            "--no-python-downloads",
        }
    ),
    frozenset({"-p", "--python", "--python-preference"}),
    frozenset({"--from", "--with", "-w"}),
    _pypi,
)
_PIPX: _Walk = (
    frozenset({"--quiet", "-q", "--no-cache", "--verbose"}),
    frozenset({"--python"}),
    frozenset({"--spec"}),
    _pypi,
)
_GO_RUN: _Walk = (
    frozenset({"-v", "-x", "-trimpath"}),
    frozenset(),
    frozenset(),
    lambda text: len(text) <= MAX_PACKAGE and bool(re.fullmatch(_GO, text)),
)
LAUNCHERS = frozenset(
    {
        "npx",
        "bunx",
        "pnpx",
        "npm",
        "pnpm",
        "yarn",
        "uvx",
        "uv",
        "pipx",
        "docker",
        "podman",
        "nerdctl",
        "finch",
        "go",
        "deno-x",
        "container",
    }
)
_ROUTES: dict[str, tuple[tuple[str, ...], ...]] = {
    "npm": (("exec",), ("x",)),
    "pnpm": (("dlx",),),
    "yarn": (("dlx",),),
    "uv": (("tool", "run"),),
    "pipx": (("run",),),
    "go": (("run",),),
}
_QUIET = {
    "npm": frozenset({"--silent", "--quiet", "-q", "--offline", "--prefer-offline"}),
    "pnpm": frozenset({"--silent", "-s"}),
    "uv": frozenset({"-q", "--quiet", "--no-progress", "--offline", "--no-config", "--native-tls"}),
    "pipx": frozenset({"-q", "--quiet"}),
}
"""Options ahead of the verb that change nothing about what is run."""
_PYTHONS = r"((c?python|pypy)[@-]?)?[23](\.[0-9]+){0,2}t?|only-managed|managed|(only-)?system"
_IMAGES = frozenset({"docker", "podman", "nerdctl", "finch", "container"})


def launched(name: str, words: list[str]) -> Iterator[Fault]:
    """Judge the words of a launcher (rules 6 and 7)."""
    if name in _IMAGES:
        yield from _image(name, words)
        return
    at = 1
    quiet = _QUIET.get(name, frozenset())
    while at < len(words) and words[at] in quiet:
        at += 1
    if name in _ROUTES:
        route = next((one for one in _ROUTES[name] if tuple(words[at : at + len(one)]) == one), None)
        if route is None:
            said = " ".join(words[at : at + 2])[:80]
            yield Fault("runs-others", at, f"{name} {printable(said)}, which runs what the project says")
            return
        at += len(route)
    if name == "npm":
        yield from _npm_reads_on(words, at)
    kind = _PIPX if name == "pipx" else _UVX if name in ("uvx", "uv") else _GO_RUN if name == "go" else _NPX
    yield from _package(name, words, at, *kind)


def _npm_reads_on(words: list[str], at: int) -> Iterator[Fault]:
    """Say what `npm exec` takes for its own option behind the package: it reads on until `--`."""
    for where, word in enumerate(words[at:], at):
        if word == "--":
            return
        head = word.partition("=")[0]
        if word.startswith("-") and not {head} & {*_NPX[0], *_NPX[2], "--stdio"}:
            yield Fault(
                "option", where, f"{printable(word)}, which npm reads itself: put -- ahead of what the tool reads"
            )
            return


def _package(
    name: str,
    words: list[str],
    at: int,
    alone: frozenset[str],
    valued: frozenset[str],
    naming: frozenset[str],
    pins: Pins,
) -> Iterator[Fault]:
    """Walk to the word that is run. An option that is not known here ends the walk: what follows it may be its value."""
    source = ""
    while at < len(words) and words[at].startswith("-"):
        word, equals, value = words[at].partition("=")
        if words[at] == "--":
            at += 1
            break
        if word in alone and not equals:
            at += 1
        elif word in valued:
            if not equals:
                at += 1
                value = words[at] if at < len(words) else ""
            if not re.fullmatch(_PYTHONS, value):  # what has a value here says which Python runs the package
                yield Fault("unlisted", at, f"{printable(value)}, which is no version of Python")
            at += 1
        elif word in naming:
            if not equals:
                at += 1
                value = words[at] if at < len(words) else ""
            if not pins(value):
                yield Fault("unpinned", at, f"{printable(value)}, which has no exact version")
                return
            source = value if word not in ("--with", "-w") else source
            at += 1
        elif word in ("-c", "--call", "--shell-mode"):
            yield Fault("evaluates", at, f"{printable(words[at])}, a line for a shell")
            return
        else:
            yield Fault("option", at, f"{printable(words[at])}, an option whose effect on what runs is not known here")
            return
    if at >= len(words):
        yield Fault("unpinned", at, f"{name} without a package")
        return
    package = words[at]
    if "$" in package:
        yield Fault("variable", at, f"{printable(package)}, which is known to nobody before it runs")
    elif source:
        if named(package) in _SHELLS:
            yield Fault("shell", at, f"{printable(package)}, a shell")
        elif named(package) in INTERPRETERS or named(package) in RUNS_OTHERS or named(package) in FETCHES:
            yield Fault("runs-others", at, f"{printable(package)}, which is told what to run")
        elif not re.fullmatch(r"[A-Za-z0-9_.-]+", package):
            yield Fault("unpinned", at, f"{printable(package)}, which is no command of {printable(source)}")
    elif not pins(package):
        yield Fault("unpinned", at, f"{printable(package)}, which has no exact version")


_ALONE = frozenset(
    {
        "-i",
        "-t",
        "-it",
        "-ti",
        "--rm",
        "--interactive",
        "--tty",
        "--init",
        "--read-only",
        "--no-healthcheck",
        "-q",
        "--quiet",
        "--sig-proxy",
    }
)
_VALUED = frozenset({
    "-e", "--env", "--name", "-w", "--workdir", "-u", "--user", "-m", "--memory", "--memory-swap", "--cpus", "--pids-limit", "-l",
    "--label", "-h", "--hostname", "--stop-timeout", "--stop-signal", "--platform", "--pull", "--log-driver", "--log-opt",
    "--cap-drop", "--tmpfs", "--ulimit", "--shm-size", "--restart", "--network", "--net", "-v", "--volume", "--mount",
    "--entrypoint", "--security-opt", "-p", "--publish", "--add-host", "--dns", "--cgroupns", "-a", "--attach",
})  # fmt: skip  # words, a line at a time
_HOST = frozenset({
    "--privileged", "--cap-add", "--device", "--pid", "--ipc", "--uts", "--userns", "--volumes-from", "--device-cgroup-rule",
    "--gpus", "--cgroup-parent", "--sysctl", "--group-add", "--runtime",
})  # fmt: skip  # words, a line at a time
_LOADING = (
    r"(LD_[A-Z_]+|DYLD_[A-Z_]+|NODE_OPTIONS|NODE_PATH|PYTHON(PATH|STARTUP|HOME)|BASH_ENV|ENV|PERL5(LIB|OPT)|RUBYOPT"
    r"|JAVA_TOOL_OPTIONS|PATH)"
)


def _image(name: str, words: list[str]) -> Iterator[Fault]:
    at = 1
    if words[1:3] == ["container", "run"]:
        at = 2
    if words[at : at + 1] != ["run"]:
        yield Fault("runs-others", 1, f"{name} {' '.join(words[1:2])}, which is no run of one image".replace(" ,", ","))
        return
    at += 1
    first = ""
    while at < len(words) and words[at].startswith("-"):
        word, equals, value = words[at].partition("=")
        if not word.startswith("--") and len(word) > 2 and word[:2] in _VALUED and word not in _ALONE:
            word, equals, value = word[:2], "=", words[at][2:].removeprefix("=")
        if word in _HOST and value.lower() != "false":
            yield Fault("mount", at, f"{printable(words[at])}, which opens the host to the container")
            return
        if word in _ALONE and (not equals or value in ("true", "false")):
            at += 1
            continue
        if word not in _VALUED:
            yield Fault("option", at, f"{printable(words[at])}, an option whose effect on what runs is not known here")
            return
        if not equals:
            at += 1
            value = words[at] if at < len(words) else ""
        first = value if word == "--entrypoint" else first
        wrong = _of_option(word, value)
        if wrong is not None:
            yield Fault(wrong[0], at, f"{printable(word)} {printable(value)}, {wrong[1]}")
        at += 1
    if at >= len(words):
        yield Fault("unpinned", at, f"{name} run without an image")
        return
    if "$" in words[at]:
        yield Fault("variable", at, f"{printable(words[at])}, which is known to nobody before it runs")
    elif not re.fullmatch(_IMAGE, words[at]):
        yield Fault("unpinned", at, f"{printable(words[at])}, an image without a digest")
    if len(words) > at + 1 and named(words[at + 1]) in _SHELLS:
        yield Fault("shell", at + 1, f"{printable(words[at + 1])}, a shell in the container")
    else:
        yield from _contained([first, *words[at + 1 :]] if first else words[at + 1 :], at + (not first))


def _contained(words: list[str], at: int) -> Iterator[Fault]:
    """Judge what runs in the container: its files came with the digest, so only text to be run and fetching are left."""
    name = named(words[0]) if words else ""
    if name in INTERPRETERS:
        for more, word in enumerate(words[1:], 1):
            if not word.startswith("-"):
                return
            how = INTERPRETERS[name]
            if word.startswith("-m") and word != "--":
                return
            if how.evaluates(word):
                yield Fault("evaluates", at + more, f"{printable(word)}, which runs text or loads something first")
                return
    elif name in FETCHES or name in RUNS_OTHERS or name in REMOTE:
        yield Fault("runs-others", at, f"{printable(words[0])}, which fetches, or runs what it is told")


def _of_option(word: str, value: str) -> tuple[str, str] | None:
    if word in ("-v", "--volume"):
        source = value.split(":")[0]
        if re.match(r"[A-Za-z]:[\\/]", value):
            return "mount", "a folder of the host"
        if ":" not in value or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", source):
            return None
        return "mount", "a folder of the host"
    if word == "--mount":
        parts = dict(part.partition("=")[::2] for part in value.split(","))
        return (
            None
            if parts.get("type") in ("volume", "tmpfs") and "volume-opt" not in value
            else ("mount", "a folder of the host")
        )
    if (
        word in ("--network", "--net")
        and value not in ("none", "bridge", "default")
        and not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", value)
    ):
        return "mount", "a network that is not the container's own"
    if word in ("--network", "--net") and value == "host":
        return "mount", "the host's own network"
    if word == "--security-opt" and not value.startswith(("no-new-privileges", "seccomp=", "apparmor=")):
        return "mount", "which takes a wall away"
    if word == "--security-opt" and "unconfined" in value:
        return "mount", "which takes a wall away"
    if word == "--cgroupns" and value == "host":
        return "mount", "a namespace of the host"
    if word == "--entrypoint" and named(value) in _SHELLS:
        return "shell", "a shell in the container"
    if word in ("-e", "--env") and re.fullmatch(_LOADING, value.partition("=")[0]):
        return "option", "which decides what is loaded"
    if word in ("-p", "--publish") and not value.startswith(("127.0.0.1:", "[::1]:")):
        return "mount", "a port that others can reach"
    if word == "--pull" and value not in ("never", "missing"):
        return None
    return None
