"""Settings of test runners: what they leave out, and how strict they are, before and after."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from drillmaster.rules.weakening._compare import Weakening
from drillmaster.rules.weakening._shapes import Unparsed

__all__ = ["is_settings", "weakened"]

_NAMES = frozenset({
    "pyproject.toml", "pytest.ini", ".pytest.ini", "setup.cfg", "tox.ini", "package.json", ".coveragerc",
    ".mocharc.json", "pytest.toml", ".pytest.toml",
})  # fmt: skip  # words
_SCRIPTS = frozenset(
    {
        "Makefile",
        "makefile",
        "GNUmakefile",
        "justfile",
        "Justfile",
        "Taskfile.yml",
        "run_tests.sh",
        "test.sh",
        "tests.sh",
    }
)
# Both are built when settings have changed: most changes touch none.
_RUNS = (
    r"\b(?:py\.?test|unittest|nose2?|tox|nox|jest|vitest|mocha|ava|tap|tape|karma|cypress|playwright|nyc|c8"
    r"|node --test|go test|cargo test"
    r"|(?:npm|pnpm|yarn|bun)(?: run)? test|mvn|gradle|gradlew|rspec|phpunit"
    r"|dotnet test|ctest|mix test|stack test|bats|drillmaster)\b"
)
_MODULE = r"\b(?:python[\d.]*|uv run|coverage run|run)\s+-m\s+"
_LEAVES_OUT = (
    r"--ignore(?:-glob)?(?=[=\s]|$)|--deselect\b|(?<!\S)-[km](?=\s|=|['\"]|$)|--suppress-no-test-exit-code|--snapshot-update"
    r"|--co(?:llect-only)?\b"
    r"|--reruns?\b|--only-rerun|--force-regen|--passWithNoTests|--pass-with-no-tests|--updateSnapshot"
    r"|(?:jest|vitest|ava|playwright test|tap)\b[^&|;]*?\s-u(?=\s|$)"
    r"|--ci=false|--bail=0"
    r"|--testPathIgnorePatterns|--exclude\b|--retries\b|--retry\b|\|\|\s*true|\|\|\s*:|\|\|\s*exit 0"
    r"|--exit-zero|--allow-empty|--forbid-only=false"
    r"|-p no:|--inline-snapshot=(?:fix|update|create)|--continue-on-collection-errors"
)
_NARROWS = frozenset({
    "norecursedirs", "testPathIgnorePatterns", "modulePathIgnorePatterns", "exclude", "omit", "exclude_lines",
    "exclude_also", "watchPathIgnorePatterns", "coveragePathIgnorePatterns", "collect_ignore",
})  # fmt: skip  # words
_TAKES_IN = frozenset({
    "testpaths", "python_files", "python_classes", "python_functions", "testMatch", "testRegex", "include",
    "roots", "spec", "files",
})  # fmt: skip  # words
_STRICT = frozenset({
    "xfail_strict", "strict", "strict_markers", "strict_config", "fail_under", "forbidOnly", "errorOnDeprecated",
    "check-leaks",
})  # fmt: skip  # words
_LAX = frozenset({
    "passWithNoTests", "allowOnly", "dangerouslyIgnoreUnhandledErrors", "retries", "retry", "reruns",
    "testTimeout", "timeout",
})  # fmt: skip  # words


def is_settings(path: str) -> bool:
    """Whether a file's settings are compared here, as data."""
    name = path.rpartition("/")[2]
    return name in _NAMES or name in _SCRIPTS


def weakened(path: str, before: bytes | None, after: bytes | None) -> Iterator[Weakening]:
    """Find settings that collect less, or let more pass. Raises Unparsed."""
    if not is_settings(path) or (after is None and before is None):
        return
    try:
        was = _read(path, before) if before is not None else {}
    except Unparsed:
        was = {}
    now = _read(path, after) if after is not None else {}
    for key in sorted({*was, *now}):
        said = _said(key, was.get(key), now.get(key), had=_beside(key, was))
        if said:
            yield Weakening(kind="config", path=path, test=key, line=1, was=_shown(was.get(key)), now=said)


def _said(key: str, was: Any, now: Any, *, had: bool) -> str:
    """Say in what way a setting is weaker; empty: in none. `had`: there were settings beside it before."""
    leaf = key.rpartition(".")[2]
    if leaf in ("addopts", "commands", "script", "lines") or key.startswith("scripts."):
        if leaf not in ("addopts", "lines") and not (re.search(_RUNS, _flat(was)) or re.search(_RUNS, _flat(now))):
            return ""  # no tests are run by it
        new = set(re.findall(_LEAVES_OUT, _flat(now))) - set(re.findall(_LEAVES_OUT, _flat(was)))
        more = _options(now) - _options(was)
        if not new and not more and leaf == "addopts":
            gone = {"--strict-markers", "--strict-config", "--strict", "--doctest-modules"} & set(
                _flat(was).split()
            ) - set(_flat(now).split())
            return f"without {', '.join(sorted(gone))}" if gone else ""
        return f"with {' '.join(sorted(new or more))}" if new or more else ""
    if leaf in _NARROWS:
        more = set(_items(now)) - set(_items(was))
        return f"leaves out {', '.join(sorted(more))}" if more else ""
    if leaf in _TAKES_IN:
        if now is None or was is None:
            return f"takes in {_shown(now)} alone" if now is not None and had and leaf != "files" else ""
        gone = set(_items(was)) - set(_items(now))
        return f"takes in no {', '.join(sorted(gone))} any more" if gone else ""
    if leaf in _STRICT:
        return _shown(now) or "nothing" if _level(now) < _level(was) else ""
    if leaf in _LAX:
        return (
            _shown(now)
            if now is not None
            and _level(now) > _level(was)
            and (was is not None or leaf not in ("timeout", "testTimeout"))
            else ""
        )
    if leaf == "filterwarnings":
        return "warnings are no errors any more" if "error" in _items(was) and "error" not in _items(now) else ""
    return ""


def _beside(key: str, was: Mapping[str, Any]) -> bool:
    section = key.rpartition(".")[0]
    return any(one.rpartition(".")[0] == section for one in was)


def _options(value: Any) -> set[str]:
    """Give the options that leave out, with what they leave out."""
    text = _flat(value)
    return set(re.findall(r"(?:--ignore(?:-glob)?|--deselect|-k|-m)[= ]\S+", text))


def _level(value: Any) -> float:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return float(value)
    text = str(value or "").strip().lower()
    if text in ("true", "yes", "on"):
        return 1.0
    try:
        return float(text)
    except ValueError:
        return 0.0


def _flat(value: Any) -> str:
    text = " ".join(_items(value)) if not isinstance(value, str) else value
    return re.sub(_MODULE, "", text)  # the -m of `python -m pytest` chooses no tests


def _items(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [str(one) for one in value]
    return [str(value)]


def _shown(value: Any) -> str:
    return _flat(value) if value is not None else ""


def _read(path: str, data: bytes) -> dict[str, Any]:
    """Give the settings of test runners in one file, flat."""
    import configparser  # these three cost 10 ms that a change without settings need not pay
    import json
    import tomllib

    name = path.rpartition("/")[2]
    try:
        text = data.decode("utf-8")
        if name in _SCRIPTS:
            return {"lines": " ; ".join(line.strip() for line in text.splitlines() if re.search(_RUNS, line))}
        if name in ("pytest.toml", ".pytest.toml"):
            return dict(_leaves(tomllib.loads(text), ""))
        if name == "pyproject.toml":
            tool = tomllib.loads(text).get("tool", {})
            kept = {
                key: tool.get(key)
                for key in ("pytest", "coverage", "tox", "hatch", "mutmut")
                if isinstance(tool, dict) and key in tool
            }
            return dict(_leaves(kept, ""))
        if name in ("package.json", ".mocharc.json"):
            loaded = json.loads(text)
            if not isinstance(loaded, dict):
                raise Unparsed("no object", f"correct {name}")
            wanted = (
                ("scripts", "jest", "vitest", "mocha", "ava", "nyc", "c8") if name == "package.json" else tuple(loaded)
            )
            return dict(_leaves({key: loaded[key] for key in wanted if key in loaded}, ""))
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        parser.read_string(text)
        sections = {
            name: dict(parser[name])
            for name in parser.sections()
            if name.partition(":")[2].startswith(("pytest", "coverage"))
            or name in ("pytest", "run", "report")
            or name.startswith("testenv")
        }
        return dict(_leaves(sections, ""))
    except (
        UnicodeDecodeError,
        tomllib.TOMLDecodeError,
        json.JSONDecodeError,
        configparser.Error,
        RecursionError,
        ValueError,
    ):
        raise Unparsed(f"no {name} that its tools would read", f"correct {name}") from None


def _leaves(value: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and depth < 20:
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    else:
        yield prefix, value
