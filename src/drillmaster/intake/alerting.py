"""A team's own prometheus.yml, rules files and alertmanager.yml: what they say of how soon an alert comes.

1. The files are Prometheus' and Alertmanager's: fields that this does not know are theirs and are passed over. What it reads must
   be what those programs take, with the line where it is not. Anchors and aliases are read, as those programs do.
2. Nothing is asked of a running program, and no secret of these files is kept: no receiver's settings are looked at.
3. Rules files are those that prometheus.yml names, from its own folder, or those that were given instead.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drillmaster.errors import Problem, Refused
from drillmaster.intake import read_bytes
from drillmaster.rules.alert_delay import At, Facts, Inhibit, Matcher, Recording, Route, Rule, duration_s
from drillmaster.strict import MAX_DEPTH

__all__ = ["read_facts", "rule_names"]

CAP_BYTES = 1 << 20
_MOST_FILES = 500
_MOST_ROUTES = 2_000
_MOST_DEPTH = 32
_MATCHER = re.compile(r'\s*"?([a-zA-Z_:][\w:.]*)"?\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^",{}]*)\s*')
_SCRAPE = At(60, "Prometheus' default")
_EVALUATION = At(60, "Prometheus' default")


def _deepest(data: bytes) -> int:
    """How deep brackets lie in each other, those in text counted too: a parser takes a minute for what is ten thousand deep."""
    deepest = depth = 0
    for found in re.finditer(rb"[\[{\]}]", data):
        depth = depth + 1 if found[0] in b"[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


class _File:
    """One YAML file, with the lines of what is in it."""

    def __init__(self, path: Path) -> None:
        from ruamel.yaml import YAML  # 50 ms that only whoever has such a file pays
        from ruamel.yaml.error import YAMLError

        self.name = str(path)
        data = read_bytes(path, CAP_BYTES)
        if _deepest(data) > MAX_DEPTH:
            raise self.wrong(None, "a nesting that is too deep", f"at most {MAX_DEPTH} levels")
        try:
            self.root = YAML(typ="rt").load(data)
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            at = None if mark is None else mark.line + 1
            said = str(getattr(error, "problem", "") or "no YAML").splitlines()[0]
            raise self.wrong(at, said[:200], "YAML as the program reads it") from None
        except (ValueError, RecursionError, UnicodeError):
            raise self.wrong(None, "no YAML", "YAML as the program reads it") from None
        if not isinstance(self.root, dict):
            raise self.wrong(1, "no mapping", "the file's sections")

    def wrong(self, line: int | None, found: str, wanted: str) -> Problem:
        place = self.name if line is None else f"{self.name}:{line}"
        return Problem(
            place, found=found, wanted=wanted, remedy="mend it, and have promtool or amtool check-config see it"
        )

    def line(self, held: Any, key: Any = None) -> int | None:
        """The line of a mapping or list, or of one of its keys."""
        lc = getattr(held, "lc", None)
        if lc is None:
            return None
        if key is not None and lc.data is not None and key in lc.data:
            return int(lc.data[key][0]) + 1
        return None if lc.line is None else int(lc.line) + 1

    def place(self, held: Any, key: Any = None) -> str:
        line = self.line(held, key)
        return self.name if line is None else f"{self.name}:{line}"

    def seconds(self, held: Any, key: str) -> At | None:
        value = held.get(key)
        if value is None:
            return None
        found = duration_s(value) if isinstance(value, str) else 0.0 if value == 0 and value is not False else None
        if found is None:
            raise self.wrong(self.line(held, key), f"{key}: {str(value)[:40]!r}", "a duration such as 30s or 1m")
        return At(found, self.place(held, key))

    def interval(self, held: Any, key: str) -> At | None:
        """A duration of which 0 stands for the one above, as those programs have it."""
        found = self.seconds(held, key)
        return found if found is None or found.s > 0 else None

    def mapping(self, held: Any, key: str) -> Any:
        value = held.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(self.line(held, key), f"{key}: no mapping", "a mapping")
        return value

    def items(self, held: Any, key: str) -> Iterator[Any]:
        """The mappings of a list."""
        value = held.get(key)
        if value is None:
            return
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(self.line(held, key), f"{key}: no list of mappings", "a list of mappings")
        yield from value

    def words(self, held: Any, key: str) -> tuple[str, ...] | None:
        value = held.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(self.line(held, key), f"{key}: no list of texts", "a list of texts")
        return tuple(value)

    def labels(self, held: Any, key: str) -> dict[str, str]:
        return {str(name): str(value) for name, value in self.mapping(held, key).items()}


def read_facts(prometheus: Path, alertmanager: Path, rule: str, *, rules: Sequence[Path] = ()) -> Facts:
    """Read what the files say of one alerting rule. Raises Problem; Refused where there is no such rule, or several."""
    main = _File(prometheus)
    shared = main.mapping(main.root, "global")
    scrape = main.interval(shared, "scrape_interval") or _SCRAPE
    evaluation = main.interval(shared, "evaluation_interval") or _EVALUATION
    offset = main.seconds(shared, "rule_query_offset")
    scrapes: dict[str, At] = {}
    for job in main.items(main.root, "scrape_configs"):
        name = job.get("job_name")
        if not isinstance(name, str):
            raise main.wrong(main.line(job), "a job without job_name", "its name")
        scrapes[name] = main.interval(job, "scrape_interval") or scrape
    notes = []
    if main.root.get("scrape_config_files"):
        notes.append(f"jobs of scrape_config_files are not read ({main.place(main.root, 'scrape_config_files')})")
    relabelled = main.mapping(main.root, "alerting").get("alert_relabel_configs")
    if relabelled:
        notes.append("alert_relabel_configs change labels before Alertmanager sees them, or drop alerts")
    if not scrapes:
        scrapes["(none named)"] = scrape
    found: list[Rule] = []
    recordings: dict[str, Recording] = {}
    names: list[str] = []
    for path in _rules_files(main, rules):
        _read_rules(_File(path), evaluation, offset, rule, found, recordings, names)
    if len(found) != 1:
        raise _no_rule(rule, found, names)
    route, inhibits = _read_routes(_File(alertmanager))
    return Facts(
        scrapes=scrapes,
        rule=found[0],
        recordings=recordings,
        route=route,
        inhibits=inhibits,
        external_labels=main.labels(shared, "external_labels"),
        notes=tuple(notes),
    )


def rule_names(prometheus: Path | None, rules: Sequence[Path] = ()) -> list[str]:
    """List the alerting rules of some files, for who completes a name. Raises Problem."""
    files = list(rules) if rules or prometheus is None else _rules_files(_File(prometheus), ())
    names: list[str] = []
    for path in files:
        _read_rules(_File(path), _EVALUATION, None, "", [], {}, names)
    return names


def _rules_files(main: _File, given: Sequence[Path]) -> list[Path]:
    if given:
        return list(given)
    folder = Path(main.name).parent
    files: list[Path] = []
    for pattern in main.words(main.root, "rule_files") or ():
        # as Prometheus: from the file's own folder, and a pattern that names nothing is no error
        files += sorted(Path(one) for one in glob.glob(os.path.join(folder, pattern)))  # noqa: PTH118, PTH207  # an absolute one stays
    if not files:
        raise Problem(
            main.place(main.root, "rule_files"),
            found="no rules file",
            wanted="the file that has the rule",
            remedy="name it: --rules rules.yml",
        )
    return files[:_MOST_FILES]


def _read_rules(
    file: _File,
    evaluation: At,
    offset: At | None,
    wanted: str,
    found: list[Rule],
    recordings: dict[str, Recording],
    names: list[str],
) -> None:
    for group in file.items(file.root, "groups"):
        name = str(group.get("name"))
        interval = file.interval(group, "interval") or evaluation
        late = file.seconds(group, "query_offset") or offset
        for rule in file.items(group, "rules"):
            expression = str(rule.get("expr", ""))
            if "record" in rule:
                recordings[str(rule["record"])] = Recording(expression=expression, group=name, interval=interval)
                continue
            if "alert" not in rule:
                raise file.wrong(file.line(rule), "a rule with neither alert nor record", "one of them")
            names.append(str(rule["alert"]))
            if rule["alert"] != wanted:
                continue
            if not expression:
                raise file.wrong(file.line(rule), "no expr", "the rule's expression")
            found.append(
                Rule(
                    name=wanted,
                    place=file.place(rule, "expr"),
                    expression=expression,
                    group=name,
                    interval=interval,
                    held=file.seconds(rule, "for") or At(0, file.place(rule)),
                    keep_firing=file.seconds(rule, "keep_firing_for"),
                    query_offset=late,
                    labels={**file.labels(group, "labels"), **file.labels(rule, "labels")},
                )
            )


def _no_rule(rule: str, found: Sequence[Rule], names: Sequence[str]) -> Refused:
    from drillmaster.strict import near

    if found:
        places = ", ".join(one.place for one in found)
        return Refused(
            f"rule {rule}",
            found=f"{len(found)} of that name ({places})",
            wanted="one",
            remedy="give the file that counts alone: --rules FILE",
        )
    meant = near(rule, names)
    return Refused(
        f"rule {rule}",
        found="no alerting rule of that name",
        wanted=f"one of {', '.join(sorted(set(names))[:20])}" if names else "an alerting rule in the rules files",
        remedy=f"ask for it: --rule {meant}" if meant else "name the rule, or its file: --rules FILE",
    )


def _read_routes(file: _File) -> tuple[Route, tuple[Inhibit, ...]]:
    top = file.mapping(file.root, "route")
    if not top.get("receiver"):
        raise file.wrong(file.line(file.root, "route"), "no route with a receiver", "route: {receiver: ...}")
    inhibits = tuple(
        Inhibit(
            place=file.place(one),
            source=tuple(_matchers(file, one, "source_")),
            target=tuple(_matchers(file, one, "target_")),
        )
        for one in file.items(file.root, "inhibit_rules")
    )
    left = [_MOST_ROUTES]
    return _route(file, top, 0, left), inhibits


def _route(file: _File, held: Any, depth: int, left: list[int]) -> Route:
    left[0] -= 1
    if depth > _MOST_DEPTH or left[0] < 0:
        raise file.wrong(
            file.line(held), "more routes than anybody reads", f"{_MOST_ROUTES:,}, {_MOST_DEPTH} deep at most"
        )
    receiver, continues = held.get("receiver"), held.get("continue", False)
    if not isinstance(receiver, str | None):
        raise file.wrong(file.line(held, "receiver"), "receiver: no text", "a receiver's name")
    if not isinstance(continues, bool):
        raise file.wrong(file.line(held, "continue"), "continue: neither true nor false", "true or false")
    muted = (*(file.words(held, "mute_time_intervals") or ()),)
    muted += tuple(f"not {name}" for name in file.words(held, "active_time_intervals") or ())
    return Route(
        place=file.place(held),
        receiver=receiver,
        matchers=tuple(_matchers(file, held, "")),
        continues=continues,
        group_wait=file.seconds(held, "group_wait"),
        group_interval=file.seconds(held, "group_interval"),
        repeat_interval=file.seconds(held, "repeat_interval"),
        group_by=file.words(held, "group_by"),
        muted_by=muted,
        routes=tuple(_route(file, one, depth + 1, left) for one in file.items(held, "routes")),
    )


def _matchers(file: _File, held: Any, prefix: str) -> Iterator[Matcher]:
    for name, op in ((f"{prefix}match", "="), (f"{prefix}match_re", "=~")):
        for label, value in file.mapping(held, name).items():
            yield Matcher(label=str(label), op=op, value=str(value))
    key = f"{prefix}matchers"
    for text in file.words(held, key) or ():
        inner = text.strip()
        if inner.startswith("{") and inner.endswith("}"):
            inner = inner[1:-1]
        at = 0
        while at < len(inner):
            found = _MATCHER.match(inner, at)
            if found is None or (found.end() < len(inner) and inner[found.end()] != ","):
                raise file.wrong(file.line(held, key), f"{key}: {text[:60]!r}", 'matchers such as severity="sev2"')
            label, op, value = found.groups()
            value = value.strip()
            if value.startswith('"'):
                value = value[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
            yield Matcher(label=label, op=op, value=value)
            at = found.end() + 1
