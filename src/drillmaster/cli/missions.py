"""`drillmaster missions`: try a file of synthetic missions, and translate an Artillery profile into one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds

if TYPE_CHECKING:
    from drillmaster.adapters.drill.artillery import Translated
    from drillmaster.missions.trying import Trial

__all__ = ["command"]

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_PLAN_LOAD = """\
# In the plan:
#   missions:
#     loads:
#       - run: missions
#         file: {file}
#         arrivals: {arrivals}
"""


@click.group("missions", cls=Verb)
def command() -> None:
    """Try synthetic missions against an agent, and translate an Artillery profile into missions.

    A drill with missions is `drillmaster run friday`. docs/howto/synthetic-missions.md

    \b
    Examples:
      drillmaster missions try missions.yaml --url http://127.0.0.1:8090
      drillmaster missions translate drills/artillery.yml > missions.yaml
    """


@command.command("try")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), shell_complete=completions.files)
@click.option(
    "--url", required=True, metavar="URL", help="The agent's base URL, on loopback; paths of steps follow it."
)
@click.option("-n", "count", type=click.IntRange(1, 1_000), default=5, show_default=True, help="So many missions.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="What data are drawn from.")
@click.option(
    "--time-limit", "time_limit_s", type=Seconds(), default="30s", show_default=True, help="How long one may take."
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False),
    help="A PEM file to trust besides the system's.",
    shell_complete=completions.files,
)
@_json
def try_(file: Path, url: str, count: int, seed: int, time_limit_s: float, ca: str | None, as_json: bool) -> None:
    """Send a few missions of a file and print what became of each step.

    FILE is a missions.yaml, an Artillery profile, which is translated, or a Locust file (.py), which Locust runs. They go by the
    driver that a drill uses, five at once at most. Exit code 0 where all went well, 1 where one did not, 2 where none could be
    sent.

    \b
    Examples:
      drillmaster missions try missions.yaml --url http://127.0.0.1:8090 -n 20
      drillmaster missions try drills/locustfile.py --url http://127.0.0.1:8090 --json
    """
    import os

    from drillmaster.cli import say_json
    from drillmaster.errors import Exit
    from drillmaster.missions.trying import try_missions

    trial = try_missions(
        file, url=url, count=count, seed=seed, time_limit_s=time_limit_s, ca=ca, environ=dict(os.environ)
    )
    if as_json:
        say_json({"missions": trial.missions, "said": trial.said, "ok": trial.ok})
    else:
        _show(trial)
    sys.exit(Exit.PASS if trial.ok else Exit.FAIL)


def _show(trial: "Trial") -> None:
    from collections import Counter

    from drillmaster.errors import one_line

    for line in trial.said:
        click.echo(one_line(f"* {line}"))
    for mission in trial.missions:
        why = f"  ({mission.why})" if mission.why else ""
        click.echo(one_line(f"{mission.mission}  {mission.flow}  {mission.result}  {mission.ms:g} ms{why}"))
        for step in mission.steps:
            what = step.request if step.request else step.name
            named = f"{step.name}: " if step.request and step.name.lower() != step.request.lower() else ""
            status = "" if step.status is None else f"{step.status} "
            click.echo(one_line(f"  {named}{what}  {status}{step.result}  {step.ms:g} ms"))
    counts = Counter(mission.result for mission in trial.missions)
    click.echo(", ".join(f"{number} {word}" for word, number in counts.most_common()) + f" of {len(trial.missions)}")


@command.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), shell_complete=completions.files)
@_json
def translate(file: Path, as_json: bool) -> None:
    """Print an Artillery profile as a file of missions.

    What missions do not do is refused with its line: an unknown key, a variable that nothing makes, code in JavaScript. How many
    users its phases bring in all is said, on stderr. Exit code 0, or 2.

    \b
    Examples:
      drillmaster missions translate drills/artillery.yml > missions.yaml
      drillmaster missions translate drills/artillery.yml --json
    """
    from drillmaster.errors import Problem, one_line

    if file.suffix == ".py":
        place = one_line(str(file))
        raise Problem(
            place,
            found="a Python file",
            wanted="an Artillery profile",
            remedy=f"a Locust file is run as it is: loads: [{{run: locust, file: {place}, users: 200}}] under missions in the plan",
        )
    from drillmaster.adapters.drill.artillery import translate as translated
    from drillmaster.cli import say_json
    from drillmaster.friday.missions import arriving
    from drillmaster.intake import read_bytes
    from drillmaster.strict import CAP_BYTES

    cap = CAP_BYTES["json"]
    found = translated(read_bytes(file, cap), place=str(file), read=lambda name: read_bytes(file.parent / name, cap))
    total, seconds = arriving(found.arrivals), sum(part.for_s for part in found.arrivals)
    if as_json:
        say_json(
            {
                "missions": found.missions,
                "arrivals": found.arrivals,
                "total": total,
                "seconds": seconds,
                "target": found.target,
                "said": found.said,
            }
        )
        return
    for line in (f"{total:,} missions in {seconds:g} s, to the target of the plan and not {found.target}", *found.said):
        click.echo(f"* {line}", err=True)
    click.echo(_yaml(found), nl=False)


def _yaml(found: "Translated") -> str:
    """The missions as YAML, with the plan's load as a comment."""
    import io
    import json

    from ruamel.yaml import YAML

    out = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # typed as None, and read as a flag
    yaml.width = 120
    yaml.dump(_plain(found.missions), out)
    arrivals = json.dumps(_plain(found.arrivals))
    return _PLAN_LOAD.format(file="missions.yaml", arrivals=arrivals) + out.getvalue()


def _plain(value: object) -> object:
    """A struct less the fields that are as they are when left out; what a body holds stays as it is."""
    import msgspec

    match value:
        case msgspec.Struct():
            info = type(value).__struct_config__
            said: dict[str, object] = {} if info.tag_field is None else {info.tag_field: info.tag}
            for field in msgspec.structs.fields(value):
                one = getattr(value, field.name)
                usual = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
                if not (type(one) is type(usual) and one == usual):
                    said[field.encode_name] = _plain(one)
            return said
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value
