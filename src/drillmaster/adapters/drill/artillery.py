"""An Artillery profile, translated into missions, or read for what it will bring. Pure: bytes in, missions out.

1. What Artillery does and missions do too is translated: phases, weighted scenarios, requests with headers, `qs`, JSON and text
   bodies, captures by JSONPath, `think`, `loop` with a count, inline variables, CSV payloads, `$uuid`, `$randomNumber`,
   `$randomString`, `expect` and `match` on status and values.
2. Everything else is refused with its line: a key that is unknown, a variable that nothing makes, code in JavaScript. Artillery
   itself passes an unknown variable over and sends a body without it.
3. A rate is of users a second, not of users at once. `rampTo` goes there evenly; a phase brings its seconds times its mean rate.
4. The target is the plan's: the profile's own is not sent to.
5. Where Artillery draws at random, missions draw by the seed. Its own choice of a scenario is random by weight; missions deal
   the exact shares. It follows redirects and keeps cookies; missions do neither, and it is said.
6. An answer counts from 200 to 299, where the profile expects nothing else; Artillery counts any.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from drillmaster.errors import Problem
from drillmaster.friday.missions import (
    MAX_STEPS,
    Arrivals,
    Choice,
    Datum,
    Expect,
    Flow,
    Integer,
    MissionFile,
    Step,
    Table,
    Text,
    Uuid,
    file_problems,
)
from drillmaster.friday.templates import PLACEHOLDER
from drillmaster.strict import load, near
from drillmaster.strict.yamltext import strict_yaml

__all__ = ["Translated", "phases_of", "translate"]

_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_TOP = frozenset({"config", "scenarios"})
_CONFIG = frozenset({"target", "phases", "payload", "variables", "defaults", "http", "tls", "name", "plugins"})
_PHASE = frozenset({"duration", "arrivalRate", "rampTo", "arrivalCount", "pause", "maxVusers", "name"})
_SCENARIO = frozenset({"name", "weight", "flow", "engine"})
_REQUEST = frozenset({"url", "json", "body", "headers", "qs", "capture", "expect", "match", "name", "followRedirect"})
_PAYLOAD = frozenset({"path", "fields", "order", "skipHeader", "delimiter"})
_CODE = {
    "processor": "JavaScript, which is not run here",
    "function": "a function in JavaScript, which is not run here",
    "beforeRequest": "a function in JavaScript, which is not run here",
    "afterResponse": "a function in JavaScript, which is not run here",
    "beforeScenario": "a function in JavaScript, which is not run here",
    "afterScenario": "a function in JavaScript, which is not run here",
    "whileTrue": "a loop whose end is in JavaScript",
    "over": "a loop over values",
    "ifTrue": "a condition",
    "probability": "a step by chance",
    "parallel": "requests side by side",
}
_RUN_IT = "run the profile `by: artillery`, or write the flow in a missions.yaml"
_CALL = re.compile(r"(\$random(?:Number|String))\s*\(\s*([^()]*?)\s*\)")
_JSONPATH = re.compile(r"\$((?:\.[A-Za-z_][\w-]*|\[\d+\]|\['[^'\]]+'\])+)")
_PART = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d+)\]|\['([^'\]]+)'\]")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|secs|seconds?|m|min|mins|minutes?|h|hr|hrs|hours?|d|days?)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

_Path = tuple[str | int, ...]


class Translated(msgspec.Struct, frozen=True, kw_only=True):
    """A profile as missions."""

    missions: MissionFile
    arrivals: tuple[Arrivals, ...]
    target: str
    said: tuple[str, ...]


class _Profile:
    """A profile's values, with the line of each."""

    def __init__(self, content: bytes, place: str) -> None:
        self.place = place
        self.value = load(content, place=place, fmt="yaml")
        self._lines = strict_yaml(content.decode())[1]
        self.said: dict[str, None] = {}

    def refuse(self, path: _Path, found: str, wanted: str, remedy: str) -> Problem:
        at = path
        while at and at not in self._lines:
            at = at[:-1]
        line = self._lines.get(at)
        return Problem(
            f"{self.place}:{line}" if line is not None else self.place, found=found, wanted=wanted, remedy=remedy
        )

    def table(self, value: Any, path: _Path, known: frozenset[str] | None, what: str) -> dict[str, Any]:
        """An object, with no key but the known ones."""
        if not isinstance(value, dict):
            raise self.refuse(
                path, _kind(value), f"{what}: names and values", "write it as Artillery's reference has it"
            )
        if known is None:
            return value
        for name in value:
            if name in _CODE and name not in known:
                raise self.refuse((*path, name), f"{name}: {_CODE[name]}", f"what {what} of missions can have", _RUN_IT)
            if name not in known:
                meant = near(name, sorted(known))
                raise self.refuse(
                    (*path, name),
                    f"the unknown key {name!r} in {what}",
                    f"one of {', '.join(sorted(known))}",
                    f"write {meant}" if meant else f"remove it, or {_RUN_IT}",
                )
        return value

    def items(self, value: Any, path: _Path, what: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise self.refuse(
                path, _kind(value), f"{what}: a list with something in it", "add one, with `- ` before it"
            )
        return value

    def text(self, value: Any, path: _Path, what: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.refuse(path, _kind(value), f"{what}: text", "put it in quotes")
        return value

    def number(self, value: Any, path: _Path, what: str) -> float:
        if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise self.refuse(path, _kind(value), f"{what}: a number of at least 0", "write a number")
        return float(value)

    def seconds(self, value: Any, path: _Path, what: str) -> float:
        if isinstance(value, str):
            match = _DURATION.fullmatch(value.strip())
            if match is None:
                raise self.refuse(path, repr(value)[:40], f"{what}: seconds, or 15m", "write `duration: 900`")
            unit = match[2] or "s"
            return float(match[1]) * _UNITS["ms" if unit == "ms" else unit[0]]
        return self.number(value, path, what)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return {dict: "an object", list: "a list", str: "text", bool: "true or false"}.get(type(value), f"{value}"[:40])


def translate(content: bytes, *, place: str, read: Callable[[str], bytes]) -> Translated:
    """Translate a profile; `read` gives a file that it names, relative to it. Raises Problem with the line."""
    profile = _Profile(content, place)
    top = profile.table(profile.value, (), _TOP | {"before", "after"}, "the profile")
    for name in ("before", "after"):
        if name in top:
            raise profile.refuse((name,), f"{name}: a flow of its own around the test", "scenarios alone", _RUN_IT)
    config = profile.table(top.get("config"), ("config",), _CONFIG | {"processor"}, "config")
    if "processor" in config:
        found = f"processor: {_CODE['processor']}"
        raise profile.refuse(("config", "processor"), found, "a profile without code", _RUN_IT)
    for name in ("http", "tls", "plugins"):
        if name in config:
            profile.said[f"config.{name} is Artillery's own: it is not used"] = None
    target = profile.text(config.get("target"), ("config", "target"), "target")
    shared = dict(_variables(profile, config)) | dict(_payloads(profile, config, read))
    scenarios = profile.items(top.get("scenarios"), ("scenarios",), "scenarios")
    defaults = _headers(profile, config)
    flows = [_Flow(profile, scenario, nth, defaults, target, shared).flow for nth, scenario in enumerate(scenarios)]
    missions = MissionFile(kind="missions", data=shared, flows=tuple(flows))
    for problem in file_problems(missions, place=place):
        raise problem
    profile.said["redirects are not followed, and cookies are not kept"] = None
    return Translated(
        missions=missions,
        arrivals=_arrivals(profile, config),
        target=target,
        said=tuple(f"{place}: {s}" for s in profile.said),
    )


def phases_of(content: bytes, *, place: str) -> tuple[Arrivals, ...]:
    """A profile's phases alone, for what is run by Artillery itself. Raises Problem."""
    profile = _Profile(content, place)
    top = profile.table(profile.value, (), None, "the profile")
    return _arrivals(profile, profile.table(top.get("config"), ("config",), None, "config"))


def _arrivals(profile: _Profile, config: Mapping[str, Any]) -> tuple[Arrivals, ...]:
    made = []
    for nth, said in enumerate(profile.items(config.get("phases"), ("config", "phases"), "phases")):
        path: _Path = ("config", "phases", nth)
        phase = profile.table(said, path, _PHASE, "a phase")
        name = str(phase.get("name", ""))
        most = phase.get("maxVusers")
        max_open = None if most is None else round(profile.number(most, (*path, "maxVusers"), "maxVusers"))
        if "pause" in phase:
            made.append(Arrivals(for_s=profile.seconds(phase["pause"], (*path, "pause"), "pause"), name=name))
            continue
        if "duration" not in phase:
            raise profile.refuse(path, "a phase without duration", "how long it lasts", "add duration: 900")
        for_s = profile.seconds(phase["duration"], (*path, "duration"), "duration")
        if not for_s:
            raise profile.refuse((*path, "duration"), "0", "more than 0 seconds", "remove the phase")
        if "arrivalCount" in phase:
            if "arrivalRate" in phase or "rampTo" in phase:
                raise profile.refuse(path, "arrivalCount beside arrivalRate", "one of the two", "remove arrivalRate")
            count = profile.number(phase["arrivalCount"], (*path, "arrivalCount"), "arrivalCount")
            per_s, to_per_s = count / for_s, None
        elif "arrivalRate" in phase or "rampTo" in phase:
            per_s = profile.number(phase.get("arrivalRate", 0), (*path, "arrivalRate"), "arrivalRate")
            ramp = phase.get("rampTo")
            to_per_s = None if ramp is None else profile.number(ramp, (*path, "rampTo"), "rampTo")
        else:
            raise profile.refuse(
                path, "a phase without a rate", "arrivalRate, arrivalCount or pause", "add arrivalRate: 5"
            )
        made.append(Arrivals(for_s=for_s, per_s=per_s, to_per_s=to_per_s, name=name, max_open=max_open))
    return tuple(made)


def _variables(profile: _Profile, config: Mapping[str, Any]) -> Iterator[tuple[str, Datum]]:
    path: _Path = ("config", "variables")
    for name, value in profile.table(config.get("variables", {}), path, None, "variables").items():
        values = value if isinstance(value, list) else [value]
        if not values or any(isinstance(one, dict | list) for one in values):
            raise profile.refuse(
                (*path, name), _kind(value), "text, a number, or a list of them", "write the values as a list"
            )
        yield name, Choice(of=tuple(values))


def _payloads(
    profile: _Profile, config: Mapping[str, Any], read: Callable[[str], bytes]
) -> Iterator[tuple[str, Datum]]:
    said = config.get("payload", [])
    for nth, one in enumerate(said if isinstance(said, list) else [said]):
        path: _Path = ("config", "payload", nth) if isinstance(said, list) else ("config", "payload")
        payload = profile.table(one, path, _PAYLOAD, "payload")
        name = profile.text(payload.get("path"), (*path, "path"), "path")
        fields = [
            profile.text(field, (*path, "fields", at), "a field")
            for at, field in enumerate(profile.items(payload.get("fields"), (*path, "fields"), "fields"))
        ]
        order = payload.get("order", "random")
        if order not in ("sequence", "random"):
            raise profile.refuse((*path, "order"), repr(order)[:40], "sequence or random", "write order: sequence")
        try:
            text = read(name).decode("utf-8-sig")
            rows = [row for row in csv.reader(io.StringIO(text), delimiter=payload.get("delimiter", ",")) if row]
        except (UnicodeDecodeError, csv.Error, TypeError, ValueError) as error:
            raise profile.refuse(
                (*path, "path"), f"{name}: {error}"[:120], "a CSV file in UTF-8", "save it as CSV"
            ) from None
        rows = rows[1:] if payload.get("skipHeader") else rows
        if not rows or any(len(row) < len(fields) for row in rows):
            short = next((at for at, row in enumerate(rows, 1) if len(row) < len(fields)), 0)
            found = f"{name}, row {short} with fewer values than fields" if rows else f"{name}, with no row"
            raise profile.refuse((*path, "path"), found, f"rows of {len(fields)} values", "correct the file")
        cut = tuple(tuple(row[: len(fields)]) for row in rows)
        yield f"csv.{nth}", Table(columns=tuple(fields), rows=cut, order=order)


def _headers(profile: _Profile, config: Mapping[str, Any]) -> dict[str, str]:
    path: _Path = ("config", "defaults")
    defaults = profile.table(config.get("defaults", {}), path, frozenset({"headers"}), "defaults")
    return _texts(profile, defaults.get("headers", {}), (*path, "headers"), "headers")


def _texts(profile: _Profile, value: Any, path: _Path, what: str) -> dict[str, str]:
    found = {}
    for name, one in profile.table(value, path, None, what).items():
        if isinstance(one, dict | list) or one is None:
            raise profile.refuse((*path, name), _kind(one), "text", "put it in quotes")
        found[name] = str(one).lower() if isinstance(one, bool) else str(one)
    return found


class _Flow:
    """One scenario, as a flow."""

    def __init__(
        self,
        profile: _Profile,
        said: Any,
        nth: int,
        headers: Mapping[str, str],
        target: str,
        shared: Mapping[str, Datum],
    ) -> None:
        self._profile = profile
        self._target = target
        self._data: dict[str, Datum] = {"$uuid": Uuid()}
        path: _Path = ("scenarios", nth)
        scenario = profile.table(said, path, _SCENARIO, "a scenario")
        engine = scenario.get("engine", "http")
        if engine != "http":
            raise profile.refuse(
                (*path, "engine"),
                f"engine {engine!r}",
                "http: what ends an answer over another is not in a profile",
                "write the flow in a missions.yaml, with `entry: websocket` and `until`",
            )
        self._known = {name for datum in shared.items() for name in _made(*datum)} | {"$uuid"}
        self._think = 0.0
        self._steps: list[Step] = []
        self._walk(scenario.get("flow"), (*path, "flow"), {})
        if not self._steps:
            raise profile.refuse(path, "a scenario without a request", "one at least", "add a request to its flow")
        weight = scenario.get("weight", 1)
        if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 10_000:
            raise profile.refuse((*path, "weight"), repr(weight)[:40], "a whole number, 1 to 10,000", "write weight: 1")
        self.flow = Flow(
            name=str(scenario.get("name", f"scenario {nth + 1}"))[:80],
            weight=weight,
            headers=dict(headers),
            data={name: datum for name, datum in self._data.items() if name != "$uuid" or self._uses_uuid()},
            steps=tuple(self._steps),
        )

    def _uses_uuid(self) -> bool:
        return b"$uuid" in msgspec.json.encode(self._steps)

    def _walk(self, said: Any, path: _Path, loop: Mapping[str, Any]) -> None:
        profile = self._profile
        for nth, one in enumerate(profile.items(said, path, "flow")):
            here: _Path = (*path, nth)
            step = profile.table(
                one, here, frozenset({*_METHODS, "think", "loop", "count", "log", "loopValue"}), "a flow's step"
            )
            if "think" in step:
                self._think += profile.seconds(step["think"], (*here, "think"), "think")
            elif "loop" in step:
                self._loop(step, here, loop)
            elif "log" in step:
                profile.said["log steps print nothing here"] = None
            else:
                names = [name for name in step if name in _METHODS]
                if len(names) != 1:
                    raise profile.refuse(
                        here, f"{len(names)} requests in one step", "one", "put each behind a `- ` of its own"
                    )
                self._request(names[0], step[names[0]], (*here, names[0]), loop)

    def _loop(self, step: Mapping[str, Any], path: _Path, outer: Mapping[str, Any]) -> None:
        profile = self._profile
        count = step.get("count")
        span = re.fullmatch(r"(\d{1,6})-(\d{1,6})", count) if isinstance(count, str) else None
        if span is not None:
            rounds = range(int(span[1]), int(span[2]))  # the end of Artillery's range is not in it
        elif isinstance(count, int) and not isinstance(count, bool) and count > 0:
            rounds = range(count)
        else:
            raise profile.refuse((*path, "count"), _kind(count), "how often: a whole number, or 0-5", "add count: 3")
        name = str(step.get("loopValue", "$loopCount"))
        if not rounds:
            raise profile.refuse((*path, "count"), repr(count), "a turn at least", "add count: 3")
        for turn in rounds:
            self._walk(step["loop"], (*path, "loop"), {**outer, name: turn, "$loopElement": turn})
            if len(self._steps) > MAX_STEPS:
                raise profile.refuse(
                    (*path, "count"), f"over {MAX_STEPS} requests", "fewer in one mission", "lower count"
                )

    def _request(self, method: str, said: Any, path: _Path, loop: Mapping[str, Any]) -> None:
        profile = self._profile
        request = profile.table(said, path, _REQUEST, "a request")
        url = self._filled(profile.text(request.get("url"), (*path, "url"), "url"), (*path, "url"), loop)
        url = self._within(url, (*path, "url"))
        said_query = _texts(profile, request.get("qs", {}), (*path, "qs"), "qs")
        query = self._filled(said_query, (*path, "qs"), loop)
        if query:
            pairs = "&".join(f"{quote(name, safe='')}={_query(value)}" for name, value in query.items())
            url += ("&" if "?" in url else "?") + pairs
        if "json" in request and "body" in request:
            raise profile.refuse((*path, "body"), "both json and body", "one of the two", "remove body")
        body = request.get("body")
        if body is not None and not isinstance(body, str):
            raise profile.refuse((*path, "body"), _kind(body), "text", "write json: for an object")
        headers = _texts(profile, request.get("headers", {}), (*path, "headers"), "headers")
        capture, expect = self._captures(request, path), self._expect(request, path)
        self._steps.append(
            Step(
                name=str(request.get("name", ""))[:80] or f"{method} {url.partition('?')[0]}"[:80],
                method=method.upper(),  # type: ignore[arg-type]  # one of _METHODS, in capitals
                path=url,
                headers=self._filled(headers, (*path, "headers"), loop),
                json=self._filled(request["json"], (*path, "json"), loop) if "json" in request else msgspec.UNSET,
                text=None if body is None else self._filled(body, (*path, "body"), loop),
                capture=capture,
                expect=expect,
                think_s=self._think,
            )
        )
        self._known |= capture.keys()
        self._think = 0.0

    def _within(self, url: str, path: _Path) -> str:
        """The path of a URL that may be written whole. Raises Problem for another host."""
        if url.startswith("/"):
            return url
        try:
            parts, own = urlsplit(url), urlsplit(self._target)
        except ValueError as error:
            raise self._profile.refuse(path, f"{url}: {error}"[:80], "a path", "write it as /agent/mission") from None
        if parts.scheme and (parts.scheme, parts.netloc) != (own.scheme, own.netloc):
            raise self._profile.refuse(
                path, f"another host, {parts.netloc}"[:80], "the target's", "write the path alone"
            )
        if not parts.scheme:
            return f"/{url}"
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def _filled(self, value: Any, path: _Path, loop: Mapping[str, Any]) -> Any:
        """The same with names that missions know: each call of a function becomes a datum of its own."""
        match value:
            case str():
                whole = PLACEHOLDER.fullmatch(value)
                if whole is not None and whole[1] in loop:
                    return loop[whole[1]]
                return PLACEHOLDER.sub(lambda found: self._named(found[1], path, loop), value)
            case dict():
                return {
                    self._filled(name, (*path, name), loop): self._filled(one, (*path, name), loop)
                    for name, one in value.items()
                }
            case list():
                return [self._filled(one, (*path, nth), loop) for nth, one in enumerate(value)]
            case _:
                return value

    def _named(self, name: str, path: _Path, loop: Mapping[str, Any]) -> str:
        if name in loop:
            return str(loop[name])
        if name in self._known:
            return f"{{{{ {name} }}}}"
        call = _CALL.fullmatch(name)
        if call is not None:
            return f"{{{{ {self._call(call[1], call[2], path)} }}}}"
        hint = f"${name}" if f"${name}" in self._known or name in ("randomNumber", "randomString") else None
        env = re.fullmatch(r"\$(?:processEnvironment|env)\.(\w+)", name)
        if env is not None:
            raise self._profile.refuse(
                path,
                f"{{{{ {name} }}}}, the environment's",
                "no key in what is recorded",
                f"write ${{{env[1]}}} in a header",
            )
        meant = hint or near(name, sorted(self._known))
        raise self._profile.refuse(
            path,
            f"the unknown variable {{{{ {name} }}}}",
            "one that the profile makes: Artillery would leave it out and say nothing",
            f"write {{{{ {meant} }}}}" if meant else "add it to config.variables, or capture it before",
        )

    def _call(self, function: str, given: str, path: _Path) -> str:
        numbers = [one.strip() for one in given.split(",")] if given else []
        made: Datum | None = None
        if all(re.fullmatch(r"-?\d{1,15}", one) for one in numbers):
            if function == "$randomNumber" and len(numbers) == 2 and int(numbers[0]) <= int(numbers[1]):
                made = Integer(low=int(numbers[0]), high=int(numbers[1]))
            elif function == "$randomString" and len(numbers) <= 1 and 1 <= int((numbers or ["10"])[0]) <= 10_000:
                made = Text(chars=int((numbers or ["10"])[0]))
        if made is None:
            wanted = (
                "two whole numbers, the lower one first" if function == "$randomNumber" else "a length, 1 to 10,000"
            )
            raise self._profile.refuse(
                path, f"{function}({given})"[:60], wanted, "write {{ $randomNumber(1000, 9999) }}"
            )
        name = f"{function}.{sum(one.startswith(function) for one in self._data) + 1}"
        self._data[name] = made
        self._known.add(name)
        return name

    def _captures(self, request: Mapping[str, Any], path: _Path) -> dict[str, str]:
        profile = self._profile
        said = request.get("capture", [])
        found = {}
        for nth, one in enumerate(said if isinstance(said, list) else [said]):
            here: _Path = (*path, "capture", nth) if isinstance(said, list) else (*path, "capture")
            capture = profile.table(one, here, frozenset({"json", "as"}), "capture")
            name = profile.text(capture.get("as"), (*here, "as"), "as")
            found[name] = self._pointer(profile.text(capture.get("json"), (*here, "json"), "json"), (*here, "json"))
        return found

    def _pointer(self, path_said: str, path: _Path) -> str:
        match = _JSONPATH.fullmatch(path_said)
        if match is None:
            raise self._profile.refuse(
                path,
                repr(path_said)[:60],
                "a JSONPath to one place, such as $.ticket.id",
                "name the place without filters",
            )
        parts = (a or b or c for a, b, c in _PART.findall(match[1]))
        return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)

    def _expect(self, request: Mapping[str, Any], path: _Path) -> Expect:
        profile = self._profile
        status: tuple[int | str, ...] = ("2xx",)
        pointer: str | None = None
        equals: Any = msgspec.UNSET
        said = request.get("expect", [])
        for nth, one in enumerate(said if isinstance(said, list) else [said]):
            here: _Path = (*path, "expect", nth) if isinstance(said, list) else (*path, "expect")
            expect = profile.table(one, here, frozenset({"statusCode", "hasProperty"}), "expect")
            if "statusCode" in expect:
                codes = expect["statusCode"] if isinstance(expect["statusCode"], list) else [expect["statusCode"]]
                status = tuple(int(profile.number(code, (*here, "statusCode"), "statusCode")) for code in codes)
            if "hasProperty" in expect:
                prop = profile.text(expect["hasProperty"], (*here, "hasProperty"), "hasProperty")
                pointer = self._pointer(f"$.{prop}", (*here, "hasProperty"))
        said = request.get("match", [])
        for nth, one in enumerate(said if isinstance(said, list) else [said]):
            here = (*path, "match", nth) if isinstance(said, list) else (*path, "match")
            match = profile.table(one, here, frozenset({"json", "value"}), "match")
            if pointer is not None:
                raise profile.refuse(here, "two places that are looked at", "one in a request", _RUN_IT)
            pointer = self._pointer(profile.text(match.get("json"), (*here, "json"), "json"), (*here, "json"))
            equals = match.get("value")
            if isinstance(equals, dict | list) or (isinstance(equals, str) and PLACEHOLDER.search(equals)):
                raise profile.refuse((*here, "value"), _kind(equals), "a value that is always the same", _RUN_IT)
        return Expect(status=status, pointer=pointer, equals=equals, min_chars=0)


def _query(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if PLACEHOLDER.search(text):
        return text  # a path's placeholder is encoded when it is filled
    return quote(text, safe="")


def _made(name: str, datum: Datum) -> tuple[str, ...]:
    return datum.columns if isinstance(datum, Table) else (name,)
