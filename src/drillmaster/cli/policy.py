"""`drillmaster policy`: sign a policy, see whose signatures hold, and what changed since the base."""

from pathlib import Path

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.errors import Problem, one_line

__all__ = ["command"]

_FILE = click.Path(path_type=Path)
_NOW = click.option(
    "--now", metavar="TIME", help="As of this RFC 3339 time instead of now: keys have a first and a last day."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group("policy", cls=Verb)
def command() -> None:
    """Sign what a gate judges by, and see who did.

    \b
    Examples:
      drillmaster policy sign .drillmaster/cutover-policy.yaml --key ~/.ssh/id_ed25519
      drillmaster policy verify .drillmaster/cutover-policy.yaml --base origin/main
    """


@command.command("sign")
@click.argument("file", type=_FILE, shell_complete=completions.files)
@click.option(
    "--key", type=_FILE, required=True, help="An SSH key: the private file, or the public one of a key in ssh-agent."
)
@click.option(
    "--as",
    "place",
    type=click.Choice(["first", "second"]),
    default="first",
    show_default=True,
    help="Whose signature it is, where two people have to sign.",
)
@_JSON
def sign_file(file: Path, key: Path, place: str, as_json: bool) -> None:
    """Sign FILE with an SSH key: FILE.sig, or FILE.second.sig with --as second. Exit code 0, or 2.

    A policy that no gate could read is not signed. Neither does one key sign twice.

    \b
    Examples:
      drillmaster policy sign .drillmaster/cutover-policy.yaml --key ~/.ssh/id_ed25519
      drillmaster policy sign cutover/plan.json --key ~/.ssh/id_ed25519.pub --as second
    """
    import shlex

    from drillmaster.cli import say_json
    from drillmaster.intake.policies import must_be_another_key, must_be_signable
    from drillmaster.signing import POLICY, sign

    must_be_signable(file)
    must_be_another_key(file, key, second=place == "second")
    signature = sign(file, key, namespace=POLICY, second=place == "second")
    if as_json:
        say_json({"file": str(file), "signature": str(signature), "namespace": POLICY})
        return
    click.echo(one_line(f"signed {file}: {signature}"))
    click.echo(
        one_line(f"next: git add {shlex.quote(str(signature))}, and drillmaster policy verify {shlex.quote(str(file))}")
    )


@command.command("verify")
@click.argument("file", type=_FILE, shell_complete=completions.files)
@click.option(
    "--base", metavar="REF", help="Read who may sign from this ref. Default: from the working tree, which is said."
)
@click.option(
    "--people",
    "wanted",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="How many people have to have signed.",
)
@_NOW
@_JSON
def verify_file(file: Path, base: str | None, wanted: int, now: str | None, as_json: bool) -> None:
    """Say who signed FILE, by the lists of the base ref. Exit code 0 where every signature counts, else 2.

    Asked are `.drillmaster/allowed_signers` (keys, namespaces, first and last days), `.drillmaster/roster.yaml` (who is a
    person, and until when) and `.drillmaster/revoked_keys`. A signature that does not count refuses the file.

    \b
    Examples:
      drillmaster policy verify .drillmaster/cutover-policy.yaml --base origin/main
      drillmaster policy verify cutover/plan.json --base origin/main --people 2
    """
    from drillmaster.cli import say_json
    from drillmaster.cli.gate._verdicts import now_ns
    from drillmaster.intake.policies import lists_of, people, version_here

    version = version_here(file)
    lists = lists_of(file.absolute().parent, base)
    found = people(version, lists, now_ns=now_ns(now))
    if len(found) < wanted:
        raise Problem(
            str(file),
            found=f"the signature of {found[0][1].identity} alone",
            wanted=f"those of {wanted} people",
            remedy=f"have another person sign it: drillmaster policy sign {file} --key KEY --as second",
        )
    if as_json:
        rows = [{"identity": person.identity, "key": signer.fingerprint} for signer, person in found]
        say_json({"file": str(file), "lists": lists.place, "signers": rows})
        return
    for signer, person in found:
        until = f", on the roster until {person.until}" if person.until else ""
        click.echo(one_line(f"signed by {person.identity} ({signer.fingerprint}){until}"))
    click.echo(one_line(f"by the lists of {lists.place}"))


@command.command("diff")
@click.argument("file", type=_FILE, shell_complete=completions.files)
@click.option(
    "--base", metavar="REF", required=True, help="The ref to compare with; who may sign is read from there too."
)
@_NOW
@_JSON
def diff_file(file: Path, base: str, now: str | None, as_json: bool) -> None:
    """Say what changed in FILE since the base, limit by limit, and who signed either version. Exit code 0, or 2.

    \b
    Examples:
      drillmaster policy diff .drillmaster/cutover-policy.yaml --base origin/main
    """
    from drillmaster import strict
    from drillmaster.cli import say_json
    from drillmaster.cli.gate._verdicts import now_ns
    from drillmaster.intake import format_of
    from drillmaster.intake.policies import Version, lists_of, people, version_at, version_here
    from drillmaster.rules.limit_changes import limit_changes

    at_ns = now_ns(now)
    after, before = version_here(file), version_at(file, base)
    lists = lists_of(file.absolute().parent, base)
    fmt = format_of(str(file))

    def loaded(version: Version | None) -> object:
        return {} if version is None else strict.load(version.data, place=version.place, fmt=fmt)

    def signed(version: Version | None) -> str:
        if version is None:
            return "not there"
        try:
            return "signed by " + ", ".join(
                f"{person.identity} ({key.fingerprint})" for key, person in people(version, lists, now_ns=at_ns)
            )
        except Problem as problem:
            return f"signed by nobody who counts: {problem.found}"

    changes = limit_changes(loaded(before), loaded(after))
    if as_json:
        say_json(
            {"file": str(file), "base": base, "before": signed(before), "after": signed(after), "changes": changes}
        )
        return
    for one in changes:
        way = "" if one.way == "unknown" else f" ({one.way})"
        click.echo(one_line(f"{one.pointer}: {one.before} -> {one.after}{way}"))
    same = after.data == before.data if before is not None else False
    if not changes:
        click.echo("no limit changed" + ("" if same else "; its bytes did, and a signature is of bytes"))
    click.echo(one_line(f"before: {signed(before)}"))
    click.echo(one_line(f"after: {signed(after)}"))
