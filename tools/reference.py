"""Write the pages of docs/reference/ that are made from the code: `python -m tools.reference [--check]`.

`cli.md` comes from the verbs' own help; `faults.md`, `gates.md` and `dialects.md` from docstrings and fields of the entries,
and with `faults.md` the index of faults that ships with the package (`reference_faults`); `checks.md` from what gates ask;
`plan.md`, `interview-plan.md`, `friday-plan.md`, `policy.md`, `passport.md` and `run-folder.md` from the types that the files are
decoded into.
With `--check` nothing is written, and a page that differs from the code is named and makes exit 1.
"""

import ast
import importlib
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import msgspec

from drillmaster.cli import Verbs
from drillmaster.dialects import Dialect
from drillmaster.faults import Fault
from tools import reference_faults, reference_gates, reference_guards

__all__ = ["CATALOGUES", "commands", "entries", "main", "pages"]

ROOT = Path(__file__).resolve().parent.parent
SHELF = ROOT / "docs" / "reference"
MADE = "<!-- Made from the code by `make reference`; edit the code. -->"

CATALOGUES: dict[str, tuple[str, str]] = {
    "faults": (
        "Faults",
        "What the proxy can do to an exchange. The plan names one by its tag (`fault: {mode: TAG}`), and so does "
        "`--mode`. `drillmaster fault list` finds one, `fault show TAG` explains it, and `fault try TAG` [plays it once by "
        "hand](../howto/rehearse-one-fault.md). A new fault is one file in `src/drillmaster/faults/` and its test.\n\n"
        "*Scope* is what it strikes: single exchanges, connections before any request was read, or the port. *Proof* is what "
        "shows that it met somebody: bytes that a client sent, connections, or a probe of the proxy's own. *A plain client "
        "sees* what it is left with: no answer (`refused`, `unanswered`, `reset`, `closed`, `silent`), half of one (`stalled`, "
        "`broken`: an end, a framing, a coding or a JSON text that cannot be read), or a whole one: an error `status`, a "
        "`redirect`, or one that ends in the API's own terms `complete`, `incomplete`, `cut` or with an `error` inside a 200.",
    ),
    "gates": (
        "Gates",
        "What turns sealed evidence and a policy into a verdict. Each limit below is a field of a policy file; limits "
        "have no defaults. A new gate is one file in `src/drillmaster/gates/` and its test.",
    ),
    "guards": (
        "Guards",
        "What decides inside a running worker: pinned limits and a few facts in, one decision out, without a clock, a file or a "
        "network. A guard's facts have no field for a body or a prompt, and its reasons are the ones listed here. Limits stand in "
        "a guards file, under an owner and a day for review: `drillmaster init guards --guard NAME` writes one, `drillmaster "
        "guard check FILE` checks it. In Python a worker holds all guards of a file as one object ([guard a "
        "worker](../howto/guard-a-worker.md)), or one alone: `from drillmaster.guards.quota import Quota, OutboundCall`. In other "
        "languages it asks over loopback ([from another language](../howto/guard-from-another-language.md)). `drillmaster guard "
        "NAME --explain FACTS` says what it would be told.\n\n"
        "Where a guard *counts in a store*, `drillmaster.stores` carries its law out, in one round trip, in SQLite, PostgreSQL or "
        "Redis; a store that gives no answer denies. A decision has `allowed`, `reason`, `wait_ms` (not before so long from now), "
        "and where something is counted `left` and `limit` (how much is left, and of which limit). A new guard is one file in "
        "`src/drillmaster/guards/` and its test.",
    ),
    "dialects": (
        "Dialects",
        "The provider APIs that the proxy and the stand-in provider speak: how a request is recognised, when an answer is "
        "really finished, and how errors look. A new dialect is one file in `src/drillmaster/dialects/` and its test.\n\n"
        "A request is taken for the API whose host it goes to (the plan's `proxy.upstream`), else for the one whose path and "
        'fields it has; `proxy.dialect` in the plan settles it. `drillmaster.dialects.assert_finished(body, "anthropic")` '
        "asks in a test of your own whether an answer was finished.\n\n"
        "Sources of the errors: D official documentation, S an SDK's source, T a body pasted in a public tracker, 2 a "
        "secondary page, M measured with the SDK; *ours* where nothing is documented and the shape alone is the provider's. "
        "*Heals*: the same request can succeed later by itself. *Tells*: the API says when, in a field or in the body.",
    ),
}

SHAPES: dict[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {
    "plan": (
        "Plan",
        "A plan is YAML, JSON or TOML. `drillmaster init eviction` writes one with every field explained. Fields that are not "
        "listed here are refused, and so are keys that stand twice. A plan holds no limit: limits are the policy's.",
        (
            ("", "drillmaster.plan:Plan"),
            ("seats", "drillmaster.plan:Seats"),
            ("target", "drillmaster.plan:Target"),
            ("target.expect", "drillmaster.plan:Expect"),
            ("target.permit", "drillmaster.plan:Permit"),
            ("traffic", "drillmaster.plan:Traffic"),
            ("proxy", "drillmaster.plan:Proxy"),
            ("phases", "drillmaster.plan:Phases"),
            ("fault", "drillmaster.plan:Fault"),
            ("fault.rules", "drillmaster.targeting:Rule"),
            ("fault.rules.when", "drillmaster.targeting:When"),
            ("fault.rules.ramp", "drillmaster.targeting:Ramp"),
            ("fault.rules.flap", "drillmaster.targeting:Flap"),
            ("matrix", "drillmaster.plan:Matrix"),
            ("matrix.faults", "drillmaster.plan:Pick"),
            ("window", "drillmaster.plan:Window"),
            ("preflight", "drillmaster.plan:Preflight"),
            ("preflight.NAME", "drillmaster.plan:Attest"),
            ("worker", "drillmaster.plan:Worker"),
            ("spend", "drillmaster.plan:Spend"),
            ("stop", "drillmaster.plan:Stop"),
        ),
    ),
    "interview-plan": (
        "Interview plan",
        "What `drillmaster interview PLAN` takes: YAML, JSON or TOML. A command line with a URL says the same by "
        "options. Fields that are "
        "not listed here are refused. [How to interview an endpoint](../howto/load-interview.md).",
        (
            ("", "drillmaster.ladder:InterviewPlan"),
            ("target", "drillmaster.ladder:Asked"),
            ("target.permit", "drillmaster.ladder:LoadPermit"),
            ("think", "drillmaster.ladder:Think"),
            ("retry, `policy: honour`", "drillmaster.ladder:Honour"),
            ("open", "drillmaster.ladder:Arrivals"),
            ("drain", "drillmaster.ladder:Batch"),
            ("seats", "drillmaster.ladder:InterviewSeats"),
            ("spend", "drillmaster.plan:Spend"),
            ("stop", "drillmaster.ladder:InterviewStop"),
        ),
    ),
    "friday-plan": (
        "Friday plan",
        "What `drillmaster run friday PLAN` takes: YAML, JSON or TOML. `drillmaster init friday` writes one with every field "
        "explained. Fields that are not listed here are refused. What is judged stands in the drill matrix, which is this drill's "
        "policy. [How to run a Friday drill](../howto/friday-drill.md).",
        (
            ("", "drillmaster.friday.plan:FridayPlan"),
            ("target", "drillmaster.friday.plan:Target"),
            ("missions", "drillmaster.friday.missions:Missions"),
            ("missions.loads, `run: missions`", "drillmaster.friday.missions:Held"),
            ("missions.loads, `run: locust`", "drillmaster.friday.missions:Locust"),
            ("missions.loads, `run: artillery`", "drillmaster.friday.missions:Artillery"),
            ("missions.loads.arrivals", "drillmaster.friday.missions:Arrivals"),
            ("flags", "drillmaster.friday.flags:FlagsSection"),
            ("flags.on", "drillmaster.friday.flags:Switched"),
            ("detectors", "drillmaster.friday.detectors:Detectors"),
            ("kill", "drillmaster.friday.plan:Kill"),
            ("control", "drillmaster.friday.plan:Control"),
            ("alerting", "drillmaster.friday.plan:Alerting"),
            ("worker", "drillmaster.plan:Worker"),
            ("phases", "drillmaster.plan:Phases"),
            ("seats", "drillmaster.plan:Seats"),
            ("target.permit", "drillmaster.plan:Permit"),
            ("window", "drillmaster.plan:Window"),
            ("preflight", "drillmaster.plan:Preflight"),
            ("preflight.NAME", "drillmaster.plan:Attest"),
            ("stop", "drillmaster.plan:Stop"),
        ),
    ),
    "policy": (
        "Policy",
        "A policy is YAML, JSON or TOML: who answers for the numbers, and one entry a gate. The limits of each gate are on the "
        "page of [gates](gates.md). No limit has a default, since a number that nobody chose is a number that nobody defends.",
        (
            ("", "drillmaster.policy:Policy"),
            ("decision of the interview gate", "drillmaster.deciding:DecisionLimits"),
            ("decision.budget", "drillmaster.deciding:BudgetNote"),
        ),
    ),
    "passport": (
        "Passport",
        "`passports/JOB.json`, which `drillmaster passport write` makes and `passport check` reads; fields that are not "
        "listed here are refused. [Which jobs may run on an endpoint](../howto/passport.md).",
        (("", "drillmaster.passports:Passport"),),
    ),
    "matrix": (
        "Fault matrix",
        "`drillmaster matrix show RUN --json`, and `drillmaster run matrix --json`, print one object, which is read from the run's "
        "folder alone; beside these fields it has `exit`, and `html` where a page was written. What the words mean: [run every "
        "fault against your agent](../howto/fault-matrix.md). A table says what some seconds of each fault did to the users "
        "who met it; it does not prove more, as that page says.",
        (
            ("", "drillmaster.matrix:Table"),
            ("spoken", "drillmaster.matrix:Pair"),
            ("results", "drillmaster.matrix:Result"),
            ("not_run", "drillmaster.matrix:LeftOut"),
        ),
    ),
    "run-folder": (
        "Run folder",
        "`runs/<id>/` holds `manifest.json`, copies of plan and policy, `timeline.jsonl` (the workers' own), `events/` (ours, "
        "[event by event](events.md)), `worker.log` (what the agent printed, secrets screened), `proxy.log` (trouble of the "
        "proxy), of an interview `samples*.bin` (one record a call) and `gaps*.bin` (times between the words of streams), "
        "`seal.json`, and behind the seal `verdict.json`, `card.md` and `report.html`, of an interview `thresholds/`, "
        "of a fault matrix `matrix.html`. A Friday drill's holds `flags.yaml`, `missions.json` (the flows as they were run), "
        "`payloads.ndjson` (what each mission asked) and `transcripts/` too, and the drill matrix as `policy.yaml`. "
        "What a seal [cannot show](../why/what-a-seal-cannot-show.md).",
        (
            ("manifest.json", "drillmaster.evidence:Manifest"),
            ("manifest.json of an interview", "drillmaster.load.manifest:InterviewManifest"),
            ("seal.json", "drillmaster.evidence:Seal"),
            ("seal.json, files", "drillmaster.evidence:SealedFile"),
            ("verdict.json", "drillmaster.verdict:Verdict"),
            ("verdict.json, checks", "drillmaster.verdict:Check"),
            ("verdict.json, findings", "drillmaster.verdict:Finding"),
        ),
    ),
}


def commands(group: click.Group | None = None, above: str = "drillmaster") -> Iterator[tuple[str, click.Command]]:
    """Yield every verb with the words that call it, groups before what they hold."""
    group = group or Verbs(package="drillmaster.cli")
    context = click.Context(group, info_name=above)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield f"{above} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{above} {name}")


def entries(catalogue: str) -> Iterator[tuple[str, ModuleType]]:
    """Yield tag and module of every entry of a catalogue, by file name."""
    for path in sorted((ROOT / "src" / "drillmaster" / catalogue).glob("[!_]*.py")):
        module = importlib.import_module(f"drillmaster.{catalogue}.{path.stem}")
        owner = entry_class(module)
        tag = getattr(getattr(owner, "__struct_config__", None), "tag", None) or getattr(owner, "name", path.stem)
        yield str(tag), module


def entry_class(module: ModuleType) -> type | None:
    """Give the class of an entry, whose docstring is the page: the tagged one where a file has more."""
    own = [v for v in vars(module).values() if inspect.isclass(v) and v.__module__ == module.__name__ and v.__doc__]
    tagged = [c for c in own if getattr(getattr(c, "__struct_config__", None), "tag", None)]
    return next(iter(tagged or own), None)


def page_text(module: ModuleType) -> str:
    """Give the docstring that is an entry's reference page: its class's, else its module's."""
    owner = entry_class(module)
    return inspect.cleandoc((owner and owner.__doc__) or module.__doc__ or "")


def _said_of_fields(owner: type) -> dict[str, str]:
    """Read what the source says of each field: the string below it, or the comment beside it."""
    source = inspect.getsource(owner)
    lines = source.splitlines()
    [body] = [node for node in ast.parse(textwrap.dedent(source)).body if isinstance(node, ast.ClassDef)]
    said = {}
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            comment = re.search(r"#\s*(.*)$", lines[(node.end_lineno or node.lineno) - 1])
            text = comment[1] if comment else ""
            if (
                isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                text = after.value.value
            said[node.target.id] = " ".join(text.split())
    return said


def _type_name(kind: object) -> str:
    name = kind.__name__ if isinstance(kind, type) and not getattr(kind, "__args__", None) else str(kind)
    name = re.sub(r" \| (?:\w+\.)*UnsetType", "", name)
    name = re.sub(r"(?:typing\.)?Annotated\[(\w+(?:\[[^\]]*\])?), [^\]]*\]", r"\1", name)
    return re.sub(r"\b(?:typing|drillmaster|collections\.abc)\.(?:\w+\.)*", "", name)


def _fields(owner: type) -> Iterator[str]:
    if not issubclass(owner, msgspec.Struct) or not msgspec.structs.fields(owner):
        return
    said = _said_of_fields(owner)
    yield "| field | type | default | |"
    yield "|---|---|---|---|"
    bare = typing.get_type_hints(owner)  # without the bounds, whose patterns would read as types
    for field in msgspec.structs.fields(owner):
        default = "must be given" if field.required else _default(field)
        kind = _type_name(bare.get(field.name, field.type)).replace("|", "or").replace("None", "null")
        yield f"| `{field.encode_name}` | {kind} | {default} | {said.get(field.name, '').replace('|', chr(92) + '|')} |"
    yield ""


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if value is msgspec.UNSET:
        return "left out"
    return "as below" if isinstance(value, msgspec.Struct) else f"`{msgspec.json.encode(value).decode()}`"


def _parts(text: str) -> Iterator[str]:
    """Make `Breaks: ...` and its like one list item each; Markdown would run them together."""
    in_item = False
    for line in text.splitlines():
        label = re.match(r"(Happens|Breaks|Looks like|Cannot show): (.*)", line)
        in_item = bool(label) or (in_item and bool(line))
        yield f"- **{label[1]}:** {label[2]}" if label else f"  {line}" if in_item else line


def catalogue_page(catalogue: str) -> str:
    """Write the page of one catalogue."""
    title, opening = CATALOGUES[catalogue]
    lines = [MADE, "", f"# {title}", "", opening, ""]
    if catalogue == "faults":
        lines += reference_faults.by_group()
    for tag, module in entries(catalogue):
        lines += [f"## {tag}", "", *_parts(page_text(module)), ""]
        owner = entry_class(module)
        if catalogue == "guards":
            lines += reference_guards.entry(tag, _fields)
        elif owner is not None:
            lines += reference_faults.fields(owner) if issubclass(owner, Fault) else _fields(owner)
        if catalogue == "dialects" and owner is not None:
            lines += _errors(owner())
    return "\n".join(lines).rstrip() + "\n"


def _errors(dialect: Dialect) -> Iterator[str]:
    """Write the table of a dialect's errors, and how it fails in the middle of a stream."""
    if dialect.table:
        yield "| condition | status | type, code | heals | tells | source |"
        yield "|---|---|---|---|---|---|"
    for row in dialect.table:
        words = " ".join(f"`{word}`" for word in (row.kind, row.code) if word)
        words += f"a shape of its own: {row.shape}" if row.shape else ""
        heals, tells = ("yes" if said else "no" for said in (row.transient, row.tells_delay))
        yield f"| `{row.name}` | {row.status} | {words} | {heals} | {tells} | {row.source} |"
    if dialect.table:
        yield ""
    if dialect.shapes:
        yield "Errors inside a 200: " + "; ".join(f"`{shape.name}` ({shape.source})" for shape in dialect.shapes) + "."
        yield ""


def shapes_page(name: str) -> str:
    """Write the page of files that are decoded into types."""
    title, opening, shapes = SHAPES[name]
    lines = [MADE, "", f"# {title}", "", opening, ""]
    for heading, where in shapes:
        module, _, owner_name = where.partition(":")
        owner = getattr(importlib.import_module(module), owner_name)
        lines += [f"## {heading}", ""] if heading else []
        lines += [inspect.cleandoc(owner.__doc__ or ""), ""] if "__doc__" in vars(owner) and owner.__doc__ else []
        lines += _fields(owner)
    return "\n".join(lines).rstrip() + "\n"


def _help(text: str) -> Iterator[str]:
    """Turn a click docstring into Markdown: blocks that click must not re-wrap become code blocks."""
    for block in inspect.cleandoc(text).split("\n\n"):
        kept = block.split("\f")[0]
        if not kept.startswith("\b"):
            yield from [kept, ""]
            continue
        lines = kept.split("\n")[1:]
        if lines and lines[0].rstrip().endswith(":"):
            yield from [lines[0], ""]
            lines = lines[1:]
        yield from ["```", *inspect.cleandoc("\n".join(["", *lines])).split("\n"), "```", ""]


# Said here and not asked of click, whose wording differs from release to release.
def _stands_for(parameter: click.Parameter) -> str:
    if parameter.metavar:
        return parameter.metavar
    if isinstance(parameter.type, click.Choice):
        return "|".join(map(str, parameter.type.choices))
    if isinstance(parameter, click.Argument):
        return (parameter.name or "").upper()
    return parameter.type.name.upper().removesuffix(" RANGE")


def _usage(command: click.Command) -> Iterator[str]:
    if any(isinstance(parameter, click.Option) for parameter in command.params):
        yield "[OPTIONS]"
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            name = _stands_for(parameter) + ("..." if parameter.nargs == -1 and not parameter.metavar else "")
            yield name if parameter.required or name.startswith("[") else f"[{name}]"
    if isinstance(command, click.Group):
        yield "[COMMAND]" if command.invoke_without_command else "COMMAND"
        yield "..."


def _option(parameter: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag or parameter.count else f" `{_stands_for(parameter)}`"
    must = " Must be given." if parameter.required else ""
    many = " May be given more than once." if parameter.multiple else ""
    text = (parameter.help or "").strip()
    text += "" if text.endswith(".") else "."
    if parameter.show_default and parameter.default is not None:
        text += f" Default: {parameter.default}."
    cells = (f"{names}{value}", f"{text}{must}{many}")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |".replace("\n", " ")


def cli_page() -> str:
    """Write the page of the command line."""
    lines = [MADE, "", "# Command line", ""]
    lines += ["Exit codes, everywhere: 0 pass, 1 fail, 2 refused or wrong usage, 3 a drill that was stopped.", ""]
    lines += ["Results go to standard output, progress and complaints to standard error.", ""]
    for words, command in commands():
        lines += [f"## {words}", "", f"    {' '.join([words, *_usage(command)])}", "", *_help(command.help or "")]
        options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        if options:
            lines += ["| option | |", "|---|---|", *(_option(option) for option in options), ""]
    return "\n".join(lines).rstrip() + "\n"


def pages() -> dict[Path, str]:
    """Write every generated page: path and text."""
    made = {SHELF / f"{catalogue}.md": catalogue_page(catalogue) for catalogue in CATALOGUES}
    shaped = {SHELF / f"{name}.md": shapes_page(name) for name in SHAPES}
    shelf = {reference_faults.INDEX: reference_faults.index(made[SHELF / "faults.md"], reference_faults.sdk_page())}
    checks = {SHELF / "checks.md": reference_gates.page(MADE)}
    return {SHELF / "cli.md": cli_page(), **made, **shaped, **shelf, **checks}


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` name those that differ."""
    stale = {path: text for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text}
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)}: differs from the code; run: make reference", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
