"""`drillmaster gate cache-keys`: are a store's keys the ones that the code is meant to make?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end

if TYPE_CHECKING:
    from drillmaster.gates.cache_keys import Use
    from drillmaster.intake.judging import Asked

__all__ = ["command"]

_FILE = click.Path(path_type=Path)


@click.command("cache-keys")
@click.argument("listing", metavar="FILE", type=_FILE, required=False, shell_complete=completions.files)
@click.option("--redis", "url", metavar="URL", help="Instead of FILE: list the keys of this Redis, on this machine.")
@click.option("--permit-host", metavar="HOST", help="Repeat the host that the policy names, where Redis is elsewhere.")
@click.option("--taken-at", metavar="TIME", help="When a FILE of lines was listed, RFC 3339.")
@click.option(
    "--etags",
    metavar="FILE",
    type=_FILE,
    multiple=True,
    help="Entity tags that were sent, one a line; can be given again.",
    shell_complete=completions.files,
)
@click.option(
    "--locks",
    metavar="FILE",
    type=_FILE,
    multiple=True,
    help="Names of locks, one a line; can be given again.",
    shell_complete=completions.files,
)
@click.option(
    "--topics",
    metavar="FILE",
    type=_FILE,
    multiple=True,
    help="Names of topics, one a line; can be given again.",
    shell_complete=completions.files,
)
@gate_options
def command(
    listing: Path | None,
    url: str | None,
    permit_host: str | None,
    taken_at: str | None,
    etags: tuple[Path, ...],
    locks: tuple[Path, ...],
    topics: tuple[Path, ...],
    asked: "Asked",
    says: Says,
) -> None:
    """Judge the keys that live in a shared cache.

    FILE has one key a line, as redis-cli --scan writes them, or is JSON of kind cache-keys with its time and other names. Each key
    is read back by the policy's types: schema, tenant, fields, digest. What cannot be read back fails; no key is printed. What the
    policy compares (etag, lock, topic) has to be handed in.

    \b
    Examples:
      drillmaster gate cache-keys keys.txt --taken-at 2026-11-30T15:30:00Z --policy cache-keys-policy.yaml
      drillmaster gate cache-keys --redis redis://127.0.0.1:6379/0 --etags etags.txt --base origin/main
    """
    from drillmaster.intake.cache_keys import KeysIntake

    names: dict[Use, tuple[Path, ...]] = {"etag": etags, "lock": locks, "topic": topics}
    given = {use: of for use, of in names.items() if of}
    intake = KeysIntake(listing, url, permit_host=permit_host, taken_at=taken_at, names=given)
    judge_and_end("cache-keys", asked, says, intake.gather)
