"""What every gate can be told and how each one ends: options, forms, and the exit code, which no form changes."""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from drillmaster.cli.gate._forms import FORMS, Says, rendered, summarise
from drillmaster.errors import Exit, Problem

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from drillmaster.gates import Gate
    from drillmaster.intake.judging import Gather, PolicyRead, Reader
    from drillmaster.verdict import Verdict

__all__ = [
    "FORMS",
    "Says",
    "change_options",
    "end",
    "gate_options",
    "judge_and_end",
    "now_ns",
    "rendered",
    "summarise",
    "verdict_options",
]

F = TypeVar("F", bound=Callable[..., Any])


def _output(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, Path], ...]:
    found: list[tuple[str, Path]] = []
    for value in values:
        form, equals, path = value.partition("=")
        if form not in FORMS or not equals or not path:
            raise click.BadParameter(f"found {value}, wanted FORM=PATH, FORM one of {', '.join(FORMS)}", ctx, param)
        if path == "-":
            raise click.BadParameter(f"found {value}, wanted a file; --format {form} prints it", ctx, param)
        if os.path.realpath(path) in {os.path.realpath(other) for _, other in found}:
            raise click.BadParameter(f"found {path} twice, wanted a file of its own for each form", ctx, param)
        found.append((form, Path(path)))
    return tuple(found)


def _offer(ctx: click.Context, param: click.Parameter, typed: str) -> "list[CompletionItem]":
    """Offer the forms while none stands there; what follows its `=` is the shell's to complete."""
    from click.shell_completion import CompletionItem  # only on a Tab

    forms = [CompletionItem(f"{form}=") for form in FORMS if f"{form}=".startswith(typed)]
    return forms or [CompletionItem(typed, type="file")]


def _files(ctx: click.Context, param: click.Parameter, typed: str) -> "list[CompletionItem]":
    from drillmaster.cli import _completions

    return _completions.files(ctx, param, typed)


def verdict_options(verb: F) -> F:
    """Give a verb the options of every verdict; it receives them as `says`."""

    @functools.wraps(verb)
    def told(
        *args: Any,
        form: str,
        as_json: bool,
        outputs: tuple[tuple[str, Path], ...],
        now: str | None,
        exit_map: str | None,
        quiet: bool,
        **rest: Any,
    ) -> Any:
        says = Says("json" if as_json else form, outputs, now_ns(None), exit_map is not None, quiet)
        try:
            says = says._replace(now_ns=now_ns(now))
            return verb(*args, says=says, **rest)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # told in every form, and raised on: the command line says it and has the exit code
            from drillmaster.cli.gate._unusable import tell

            tell(click.get_current_context().info_name or "gate", error, says)
            raise

    options = (
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMS),
            default="text",
            show_default=True,
            help="Form of the verdict on stdout.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
        click.option(
            "--output",
            "outputs",
            metavar="FORM=PATH",
            multiple=True,
            callback=_output,
            shell_complete=_offer,
            help="Write the verdict in that form to a file as well; can be given again.",
        ),
        click.option("-q", "--quiet", is_flag=True, help="In text, only what did not pass, and the verdict."),
        click.option("--now", metavar="TIME", help="Judge as of this RFC 3339 time instead of now."),
        click.option("--exit-map", type=click.Choice(["articles"]), help="Exit as the article's own script did."),
    )
    for option in reversed(options):
        told = option(told)
    return told  # type: ignore[return-value]  # click calls it by name, with what its options say


def gate_options(verb: F) -> F:
    """Give a verb the options of a gate over files of a repository; it receives them as `asked` and `says`."""
    policy = click.option(
        "--policy",
        metavar="FILE",
        help="Policy file. Default: .drillmaster/GATE-policy.yaml, GATE being the name of the gate.",
        shell_complete=_files,
    )
    return policy(change_options(verb))


def change_options(verb: F) -> F:
    """Give a verb all of those but `--policy`, which it declares itself."""

    @functools.wraps(verb)
    def told(
        *args: Any,
        says: Says,
        policy: str | None,
        base: str | None,
        head: str | None,
        repo: Path,
        event: Path | None,
        attempts: Path | None,
        **rest: Any,
    ) -> Any:
        from drillmaster.intake.judging import Asked
        from drillmaster.intake.state import state_root

        state = state_root()
        words = [Path(one) for one in rest.values() if isinstance(one, str | Path) and os.path.lexists(one)]
        read = (attempts or state / "attempts.jsonl", *([Path(policy)] if policy else []), *words)
        _must_not_replace(says.outputs, read)
        asked = Asked(
            now_ns=says.now_ns,
            state=state,
            policy=policy,
            base=base,
            head=head if head is not None or base is None else "HEAD",
            repo=repo,
            event=event,
            attempts=attempts,
        )
        return verb(*args, asked=asked, says=says, **rest)

    path = click.Path(path_type=Path)
    options = (
        click.option("--base", metavar="REF", help="The ref the change is for: policy and lists are read from there."),
        click.option("--head", metavar="REF", help="The change's last commit. Default, with --base: HEAD."),
        click.option("--repo", type=path, default=Path(), help="A folder in the repository. Default: this one."),
        click.option(
            "--event", type=path, metavar="FILE", help="The code host's event, which says who opened the change."
        ),
        click.option(
            "--attempts", type=path, metavar="FILE", help="Ledger of attempts. Default: one in the user's state folder."
        ),
    )
    wrapped: Any = told
    for option in reversed(options):
        wrapped = option(wrapped)
    return verdict_options(wrapped)  # type: ignore[no-any-return]  # as above


def judge_and_end(
    name: str,
    asked: Any,
    says: Says,
    gather: "Gather",
    *,
    read: "Reader | None" = None,
    absent: "PolicyRead | None" = None,
    mapped_problem: Exit = Exit.REFUSED,
) -> None:
    """Judge by one gate, tell the verdict and exit by it. `absent` judges where there is no policy.

    `mapped_problem` is how what cannot be used ends where the exit codes are the article's.
    """
    from drillmaster.intake.judging import judged

    try:
        said = judged(name, asked, gather, read=read, absent=absent)
    except Problem as problem:
        if says.mapped:
            problem.exit = mapped_problem
        raise
    end(said.verdict, type(said.gate), says, closing=said.closing)


def end(verdict: "Verdict", gate: "type[Gate[Any]]", says: Says, *, closing: tuple[str, ...] = ()) -> None:
    """Tell a verdict in all its forms and exit by it. A form that cannot be written refuses, once all others are."""
    import msgspec

    if says.mapped:
        verdict = msgspec.structs.replace(verdict, stamps=(*verdict.stamps, "EXIT MAP articles"))
    code = gate.article_exit(verdict) if says.mapped else int(verdict.exit)
    lost = None
    for form, path in says.outputs:
        from drillmaster.intake.written import write_whole

        try:
            write_whole(path, rendered(verdict, form, closing))
        except Problem as problem:
            lost = problem
    _print(verdict, says, closing)
    if says.form == "github":
        summarise(rendered(verdict, "markdown"))
    if lost is not None:
        print(f"drillmaster: {lost}", file=sys.stderr)
        code = code or int(Exit.REFUSED)
    sys.exit(code)


def _must_not_replace(outputs: tuple[tuple[str, Path], ...], read: tuple[Path, ...]) -> None:
    """Refuse a form over a file that the verdict was made from: the ledger of attempts, the policy, the evidence."""
    places = {os.path.realpath(one) for one in read}
    taken = next((path for _, path in outputs if os.path.realpath(path) in places), None)
    if taken is not None:
        raise Problem(
            "--output", found=f"{taken}, which is read", wanted="a file of its own", remedy="name another file"
        )


def _print(verdict: "Verdict", says: Says, closing: tuple[str, ...]) -> None:
    from drillmaster.reports.text import colour_wanted

    colour = says.form == "text" and colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
    if says.quiet and verdict.status == "pass":
        closing = ()
    click.echo(rendered(verdict, says.form, closing, colour=colour, quiet=says.quiet), nl=False, color=colour)


def now_ns(now: str | None) -> int:
    """Read --now; without it the clock. Whole seconds, as the verdict records them: judged again it is the same."""
    from drillmaster.clock import SystemClock, parse_rfc3339

    if now is None:
        return SystemClock().wall_ns() // 10**9 * 10**9
    given = parse_rfc3339(now)
    if given is None:
        raise Problem(
            "--now", found=repr(now), wanted="RFC 3339 with a zone", remedy="write it as 2026-11-29T15:30:00Z"
        )
    return given // 10**9 * 10**9
