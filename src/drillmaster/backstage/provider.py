"""What a test holds: addresses, faults, answers, and what the wire saw.

1. A fault is on within its `with` (of a marker: within the test's body) and nowhere else.
2. Each rule has to meet a request, or the test fails, unless it said `may_miss`. So does a fault that was asked for and
   never switched on. A test that fails anyway is left its own reason.
3. One window is on at a time; several faults at once are the rules of one window.
4. Nobody can count who knocks at a closed port: faults of the port are met by the proxy's own probe, and a window of such a
   fault begins when that probe was.
"""

import fnmatch
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec
import pytest

from drillmaster import faults
from drillmaster.backstage.asking import check, flag, lists, rule_of, rules_of, shown
from drillmaster.backstage.child import Child, NoAnswer
from drillmaster.backstage.seen import Attempt, attempts_of, count_of, table_of
from drillmaster.dialects import names as dialect_names
from drillmaster.errors import Problem, one_line
from drillmaster.screen import screen_text
from drillmaster.standins.provider_script import MAX_LINES, Line
from drillmaster.strict import as_type, near
from drillmaster.targeting import Rule

__all__ = ["Provider", "Window"]

TTL_S = 3_600.0
PROBES = 400
"""How often the evidence is looked at for a probe of the proxy's own: about 5 ms apart."""

_NEEDS = {
    "stream": "answers by a stream",
    "whole": "whole answers, no streams",
    "tools": "requests that offer tools",
    "model": "requests to a model's API",
    "mcp": "calls of MCP",
    "listing": "MCP's tools/list",
}
_PATHS = {
    "anthropic": "",
    "azure_openai": "",
    "gemini": "",
    "groq": "",
    "mcp": "/mcp",
    "mistral": "/mistral",
    "ollama": "",
    "openai_chat": "/v1",
    "openai_responses": "/v1",
    "openrouter": "/api/v1",
    "plain": "",
}
"""Behind the provider's address, what each API's own SDK wants as its base URL."""


class Window:
    """One fault, or several by rules, for as long as a `with` lasts."""

    def __init__(self, provider: "Provider", rules: tuple[Rule, ...], may_miss: frozenset[int], where: str) -> None:
        self._provider = provider
        self._rules = rules
        self._may_miss = may_miss
        self._where = where
        self._checked = False
        self.id = ""
        """How the evidence calls it; empty until it is on."""

    @property
    def tags(self) -> dict[str, str]:
        """Each rule's name -> its fault's tag; a fault that meets everybody has no name."""
        if len(self._rules) == 1 and self._rules[0].plain and not self._rules[0].name:
            return {"": self._rules[0].tag}
        return {rule.name or f"r{number}": rule.tag for number, rule in enumerate(self._rules, 1)}

    def __enter__(self) -> "Window":
        self._provider._switch_on(self, self._rules)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._provider._switch_off(self)
        if kind is None:
            complaint = self._complaint()
            if complaint:
                pytest.fail(complaint, pytrace=False)
        # An error may be just what the test expects around its `with`: whether anybody was met is asked at the test's end.

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The requests that it met, and that are over."""
        return tuple(one for one in self._provider.attempts if self.id and one.window == self.id)

    @property
    def met(self) -> int:
        """How many requests it met so far, those under way included; connections, of a fault that acts before requests."""
        return _met(self._met_rows())

    def _met_rows(self) -> list[dict[str, Any]]:
        rows = self._provider._read_rows()
        return [row for row in rows if row["event"] == "fault_met" and self.id and row["window"] == self.id]

    def _probed(self) -> bool:
        return any(row.get("proof") == "probe" for row in self._met_rows())

    def _complaint(self) -> str:
        """What is wrong when the test is content: it was never on, or a rule met nobody. Said once."""
        if self._checked:
            return ""
        self._checked = True
        if not self.id:
            return (
                f"{self._where}: the fault {self._named(range(len(self._rules)))} was asked for and never switched on; "
                "write `with provider.fault(...):` around what it is to meet"
            )
        met = Counter(row.get("rule", "") for row in self._met_rows())
        names = list(self.tags)
        missed = [at for at, name in enumerate(names) if not met[name] and at not in self._may_miss]
        if not missed:
            return ""
        return "\n".join([f"{self._where}: nobody met the fault {self._named(missed)}", *self._why(missed, names)])

    def _named(self, numbers: Sequence[int]) -> str:
        return " and ".join(shown(self._rules[at]) for at in numbers)

    def _why(self, missed: Sequence[int], names: list[str]) -> list[str]:
        provider = self._provider
        rows = provider._read_rows()
        spans = {row["window"]: row["ns"] for row in rows if row["event"] == "fault_injected"}
        ends = {row["window"]: row["ns"] for row in rows if row["event"] == "fault_lifted"}
        began_s = (spans.get(self.id, 0) - provider._began_ns) / 1e9
        ended_s = (ends.get(self.id, provider._began_ns) - provider._began_ns) / 1e9
        came = [one for one in provider.attempts if began_s <= one.start_s <= ended_s]
        told = [f"  while it was on ({max(0.0, ended_s - began_s):.3f} s), {count_of(len(came))} came"]
        told[0] += ":" if came else f" to {provider.url}: is that the base URL of the client under test?"
        told += [f"  {line}" for line in table_of(came)]
        if not came and _proxied(provider.url):
            told.append(
                "  HTTP_PROXY is set and NO_PROXY does not name 127.0.0.1: a client that reads them went to that proxy; "
                "take the fixture provider_env"
            )
        tallies = {row["rule"]: row for row in rows if row["event"] == "fault_rule_tally" and row["window"] == self.id}
        for at in missed:
            rule = self._rules[at]
            tally = tallies.get(names[at])
            if tally is not None:
                told.append(
                    f"  {rule.tag} as {names[at]}: {tally['matched']} fit its `when`, {tally['counted']} came in its "
                    f"times, {tally['taken']} were chosen, {tally['met']} met it"
                )
            needs = [_NEEDS[need] for need in faults.load(rule.tag).needs]
            if needs:
                told.append(f"  {rule.tag} strikes only {' and '.join(needs)}")
        told.append("  send a request that it strikes, widen `when`, or say may_miss=True where missing it is fine")
        return told


class Provider:
    """A model provider with faults on the wire, in a process of its own; `provider` in a test.

    `provider.url` is its address; `openai_url`, `anthropic_url`, ... are the base URLs that the SDKs want.
    """

    def __init__(self, child: Child, *, prefixed: bool = True) -> None:
        """`prefixed` False: behind it is an upstream that knows no dialect by its path."""
        self._child = child
        self._prefixed = prefixed
        self._rows: list[dict[str, Any]] = []
        self._in_flight = 0
        self._under_way: list[dict[str, Any]] = []
        self._content = False
        """Whether the test's body ended without a failure; of one that has not, nothing is told that it has not said."""
        self._refused_heads = 0
        self._windows: list[Window] = []
        self._on: Window | None = None
        self._loss_seen = False
        self._over = ""
        self.told = False
        """Whether a report has shown what the wire saw."""
        self._began_ns: int = child.ask("begin")["began_ns"]
        self.url = child.url
        """Scheme, host and port; the same for a whole session."""

    def __repr__(self) -> str:
        return f"<provider at {self.url}>"

    # Addresses

    def url_for(self, dialect: str) -> str:
        """The base URL that an API's own SDK wants: `url_for("openrouter")`. Raises Problem for an unknown name."""
        if dialect not in dialect_names():
            meant = near(dialect, dialect_names())
            raise Problem(
                "provider.url_for",
                found=repr(dialect[:40]),
                wanted="one of " + ", ".join(dialect_names()),
                remedy=f"did you mean {meant}?" if meant else "write one of these",
            )
        path = _PATHS.get(dialect, f"/{dialect}")
        if not self._prefixed and path.removeprefix("/") in dialect_names() and dialect != "mcp":
            path = ""
        return self.url + path

    @property
    def openai_url(self) -> str:
        """For `OpenAI(base_url=...)`; it ends in `/v1`."""
        return self.url_for("openai_chat")

    @property
    def anthropic_url(self) -> str:
        """For `Anthropic(base_url=...)`; without `/v1`, which that SDK adds."""
        return self.url_for("anthropic")

    @property
    def azure_openai_url(self) -> str:
        """For `AzureOpenAI(azure_endpoint=...)`."""
        return self.url_for("azure_openai")

    @property
    def gemini_url(self) -> str:
        """For `genai.Client(http_options={"base_url": ...})`."""
        return self.url_for("gemini")

    @property
    def groq_url(self) -> str:
        """For `Groq(base_url=...)`; that SDK adds `/openai/v1`."""
        return self.url_for("groq")

    @property
    def mistral_url(self) -> str:
        """For `Mistral(server_url=...)`."""
        return self.url_for("mistral")

    @property
    def ollama_url(self) -> str:
        """For `ollama.Client(host=...)`."""
        return self.url_for("ollama")

    @property
    def openrouter_url(self) -> str:
        """For an OpenAI client of OpenRouter's; it ends in `/api/v1`."""
        return self.url_for("openrouter")

    @property
    def mcp_url(self) -> str:
        """Of an MCP server over streamable HTTP."""
        return self.url_for("mcp")

    # Faults

    def fault(
        self, mode: str | int, /, *, params: Mapping[str, Any] | None = None, may_miss: bool = False, **words: Any
    ) -> Window:
        """A fault for a `with` statement: `with provider.fault("stall", after_events=3, when={"stream": True}):`.

        The words `when`, `share`, `ramp`, `nth`, `skip`, `every`, `first`, `schedule`, `flap` and `name` say which requests
        it meets, as in a plan's rules; all others are the fault's own parameters, which can stand in `params` too.
        `may_miss`: the test does not fail where nobody meets it. Raises Problem for what does not exist or makes no sense.
        """
        __tracebackhide__ = True
        where = _caller()
        try:
            missing = flag(may_miss, f"{where}: provider.fault")
            rule = rule_of(mode, params, words, f"{where}: provider.fault")
        except Problem as problem:
            raise problem.with_traceback(None) from None  # what is wrong stands in the test, not in here
        return self._window((rule,), frozenset({0} if missing else ()), where)

    def rules(self, rules: Sequence[Mapping[str, Any] | Rule], *, may_miss: bool = False) -> Window:
        """Several faults at once, each with whom it meets: `rules([{"mode": "503", "when": {"model": "big-*"}}, ...])`.

        They are tried in order, as the rules of a plan. Each has to meet a request, unless it holds `"may_miss": True`.
        """
        __tracebackhide__ = True
        where = _caller()
        try:
            every = flag(may_miss, f"{where}: provider.rules")
            given, missing = rules_of(rules, f"{where}: provider.rules")
        except Problem as problem:
            raise problem.with_traceback(None) from None
        return self._window(tuple(given), frozenset(range(len(given)) if every else missing), where)

    def _window(self, rules: tuple[Rule, ...], may_miss: frozenset[int], where: str) -> Window:
        self._check_open()
        window = Window(self, rules, may_miss, where)
        self._windows.append(window)
        return window

    def _switch_on(self, window: Window, rules: tuple[Rule, ...]) -> None:
        self._check_open()
        if window.id or self._on is not None:
            raise Problem(
                window._where,
                found="a window that has been on"
                if window.id
                else f"a fault that is on already, by {self._on_where()}",
                wanted="one window at a time, each for one `with`",
                remedy="make another" if window.id else "put the faults into one provider.rules([...])",
            )
        name = f"w{1 + sum(1 for other in self._windows if other.id)}"
        order = {"window": name, "rules": msgspec.to_builtins(rules), "ttl_s": TTL_S}
        try:
            self._child.ask("inject", inject=order)
        except Problem as problem:
            place = f"{window._where}: {problem.place}"
            raise Problem(place, found=problem.found, wanted=problem.wanted, remedy=problem.remedy) from None
        window.id, self._on = name, window
        if any(faults.load(rule.tag).scope == "port" for rule in rules):
            for _ in range(PROBES):
                if window._probed():
                    return
                self._child.ask("pause")
            raise Problem(
                window._where,
                found="a port that the proxy's own probe did not find shut",
                wanted="one that is",
                remedy="see whether somebody else listens there, or choose a fault of connections",
            )

    def _on_where(self) -> str:
        return self._on._where if self._on is not None else ""

    def _switch_off(self, window: Window) -> None:
        if self._on is window:
            self._on = None
            if not self._over:
                self._child.ask("lift", window=window.id)

    # Answers

    def answers(self, *lines: str | Mapping[str, Any], model: str = "*") -> None:
        """What the models of this pattern say, one line a request, the last one from then on; none: their own words.

        A line is a text, or a mapping: `text`, `tools` (each `{"name": ..., "arguments": {...}}`), `finish` (`stop`,
        `length`, `content_filter`, `tool`, `refusal`), `input_tokens`, `output_tokens`, `pieces` (the text as a stream
        cuts it). Requests that a fault answers take none.
        """
        self._check_open()
        if len(lines) > MAX_LINES:
            raise Problem(
                "provider.answers",
                found=f"{len(lines):,} lines",
                wanted=f"at most {MAX_LINES:,}",
                remedy="the last one stays anyway",
            )
        made = []
        for at, line in enumerate(lines):
            value: Any = {"text": line} if isinstance(line, str) else line
            made.append(as_type(lists(value), Line, place="provider.answers", path=(at,)))
        if not isinstance(model, str):
            raise Problem(
                "provider.answers", found=f"model={model!r}"[:60], wanted="a pattern", remedy='write model="small-*"'
            )
        for at, one in enumerate(made):
            if one.pieces is not None and one.text:
                raise Problem(
                    f"provider.answers: /{at}",
                    found="text and pieces",
                    wanted="one of them: pieces are the text as a stream cuts it",
                    remedy="leave text out",
                )
        self._child.ask("answers", model=model, lines=msgspec.to_builtins(made))

    # What the wire saw

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The requests of this test that reached the wire and are over, in the order of their beginning."""
        tags = {window.id: window.tags for window in self._windows if window.id}
        return attempts_of(self._read_rows(), tags, self._began_ns)

    @property
    def in_flight(self) -> int:
        """Requests that are not over."""
        self._read_rows()
        return self._in_flight

    @property
    def met(self) -> int:
        """How many requests or connections were met by a fault."""
        return _met(row for row in self._read_rows() if row["event"] == "fault_met")

    def assert_met(self, times: int | None = None) -> None:
        """Fail unless a fault met a request; exactly so many, where that is said. Not for faults of the port (rule 4)."""
        __tracebackhide__ = True
        met = self.met
        if met == 0 if times is None else met != times:
            wanted = "at least one" if times is None else str(times)
            raise AssertionError(f"{count_of(met)} met a fault, wanted {wanted}\n{self.wire()}")

    def assert_attempts(
        self,
        times: int | None = None,
        *,
        at_least: int | None = None,
        at_most: int | None = None,
        model: str = "*",
        path: str = "*",
    ) -> None:
        """Fail unless so many requests of that model and path (patterns) reached the wire, those that are not over included."""
        __tracebackhide__ = True
        if times is None and at_least is None and at_most is None:
            raise TypeError("assert_attempts: say how many: 3, at_least=1 or at_most=3")
        if times is not None and (at_least is not None or at_most is not None):
            raise TypeError("assert_attempts: found both times and a bound, wanted one way of saying how many")
        if at_least is not None and at_most is not None and at_least > at_most:
            raise TypeError(f"assert_attempts: found at_least={at_least} above at_most={at_most}, which nothing can be")
        over = [(one.model, one.path) for one in self.attempts]
        under_way = [(one["model"], one["path"]) for one in self._under_way]
        came = [
            one
            for one in (*over, *under_way)
            if fnmatch.fnmatchcase(one[0] or "", model) and fnmatch.fnmatchcase(one[1], path)
        ]
        low = times if times is not None else at_least or 0
        high = times if times is not None else at_most
        if len(came) < low or (high is not None and len(came) > high):
            which = "".join(f" of {word} {text}" for word, text in (("model", model), ("path", path)) if text != "*")
            wanted = str(times) if times is not None else f"{low} or more" if high is None else f"{low} to {high}"
            raise AssertionError(f"{count_of(len(came))}{which} reached the wire, wanted {wanted}\n{self.wire()}")

    def wire(self) -> str:
        """What the wire saw of this test, in a few lines: windows and what they met, then the requests."""
        try:
            attempts = self.attempts
        except (NoAnswer, Problem) as gone:
            return screen_text("\n".join([one_line(str(gone)), *map(one_line, self._child.complaints())]))
        told = []
        for window in self._windows:
            if window.id:
                met = "the port was shut" if window._probed() else f"met {window.met}"
                told.append(f"{window.id}  {window._named(range(len(window._rules)))}: {met}")
        told.append(f"{count_of(len(attempts))} reached {self.url}" + (":" if attempts else ""))
        told += table_of(attempts)
        if self._in_flight:
            told.append(f"{self._in_flight} more are not over")
        if self._refused_heads:
            told.append(f"what is no HTTP/1.1 came too ({self._refused_heads}): a base URL that begins with https://?")
        return screen_text("\n".join(told))

    def _read_rows(self) -> list[dict[str, Any]]:
        if not self._over:
            since = len(self._rows)
            told = self._child.ask("rows", since=since)
            # In place, not behind: another thread may have been told the same rows meanwhile.
            self._rows[since : since + len(told["rows"])] = told["rows"]
            self._in_flight, self._refused_heads = told["in_flight"], told["refused_heads"]
            self._under_way = told["under_way"]
            self._see_loss(told)
        return self._rows

    def _see_loss(self, told: dict[str, Any]) -> None:
        """Raises Problem, once, where the evidence is not whole: what it does not show may have been all the same."""
        if self._loss_seen:
            return
        self._loss_seen = bool(told["broken"] or told["lost"])
        if told["broken"]:
            raise Problem(
                "provider",
                found=f"an error of its own: {told['broken']}",
                wanted="evidence that is whole",
                remedy="tell the makers of drillmaster, with the lines of its log below",
            )
        if told["lost"]:
            raise Problem(
                "provider",
                found=f"{len(self._rows):,} rows of evidence in one test, and {told['lost']:,} more that were not kept",
                wanted="fewer requests",
                remedy="split the test",
            )

    # The test's own life

    def _check_open(self) -> None:
        if self._over:
            raise Problem(
                "provider", found=self._over, wanted="a test under way", remedy="use the provider of the test that runs"
            )

    def start(self, marks: Sequence[pytest.Mark], where: str) -> str:
        """The test's body begins: switch the faults of its markers on. Why that cannot be; empty where it could."""
        if not marks:
            return ""
        rules, missing = [], set()
        place = f"{where}: @pytest.mark.fault"
        try:
            for at, mark in enumerate(marks):
                if len(mark.args) != 1:
                    raise Problem(
                        place,
                        found=f"{len(mark.args)} arguments without a name",
                        wanted="one, the fault",
                        remedy='write @pytest.mark.fault("stall", after_events=3)',
                    )
                words = dict(mark.kwargs)
                if flag(words.pop("may_miss", False), place):
                    missing.add(at)
                rules.append(rule_of(mark.args[0], words.pop("params", None), words, place))
            check(rules, place)
            self._window(tuple(rules), frozenset(missing), where).__enter__()
        except Problem as problem:
            return str(problem)
        return ""

    def settle(self, *, failed: bool) -> str:
        """The test's body is over: lift, and tell what was asked for and never happened; nothing where it failed anyway."""
        try:
            if self._on is not None:
                self._switch_off(self._on)
        except NoAnswer:
            if not failed:
                raise
        if failed:
            for window in self._windows:
                window._checked = True
            return ""
        self._content = True
        return self._complaints()

    def _complaints(self) -> str:
        return "\n".join(complaint for window in self._windows if (complaint := window._complaint()))

    def close(self) -> None:
        """The test is over. Fails it for what its fixtures asked for on their way out, and that met nobody."""
        if self._over:
            return
        try:
            told = self._child.ask("end", since=len(self._rows))
        finally:
            self._over = "a test that is over"
            self._on = None
        self._rows += told["rows"]
        self._see_loss(told)
        complaint = self._complaints() if self._content else ""
        if complaint:
            pytest.fail(complaint, pytrace=False)


def _met(rows: Iterable[dict[str, Any]]) -> int:
    """How many requests and connections these rows tell of; a probe of the proxy's own is neither."""
    return len({row["attempt"] or f"connection {row['conn']}" for row in rows if row.get("proof") != "probe"})


def _proxied(url: str) -> bool:
    """Whether the environment leads a client that reads it to a proxy in place of this address."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    return bool(proxies.get("http") or proxies.get("all")) and not proxy_bypass(url.partition("://")[2])


def _caller() -> str:
    """Where the test asked for it: the first frame outside of this file."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
