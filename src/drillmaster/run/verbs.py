"""Orders from a terminal beside the drill's: find the run, take the seat's token, ask the conductor. Used by the verbs."""

import shlex
from pathlib import Path

from drillmaster.conduct import Role
from drillmaster.errors import Problem, Refused
from drillmaster.intake import read_bytes
from drillmaster.run.control import Asked, Told, ask
from drillmaster.run.seats import find_live

__all__ = ["give_order"]

_TOKEN_BYTES = 200


def give_order(
    order: str,
    *,
    run: str | None,
    token_file: str | None,
    seat: Role,
    kind: str = "",
    text: str = "",
    by: str = "",
    seen_at: str = "",
) -> tuple[str, Told]:
    """Give an order to a live run (None: the only one) from a seat; the run's id and the answer. Raises Refused."""
    folder, live = find_live(run)
    path = Path(token_file) if token_file is not None else folder / f"{seat}.token"
    _check_private(path)
    try:
        token = read_bytes(path, _TOKEN_BYTES).decode("ascii", "replace").strip()
    except Problem as problem:
        raise Refused(
            problem.place,
            found=problem.found,
            wanted=f"the {seat.capitalize()}'s token",
            remedy=f"ask the {seat.capitalize()} for it",
        ) from None
    asked = Asked(order=order, token=token, kind=kind, text=text, by=by, seen_at=seen_at)  # type: ignore[arg-type]  # the verbs' own words
    return live.run, ask(live.control, asked)


def _check_private(path: Path) -> None:
    """A token that others may read is nobody's. Raises Refused; a file that is not there is told by who reads it."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return
    if path.is_file() and mode & 0o077:
        raise Refused(
            str(path),
            found=f"mode {mode:04o}",
            wanted="0600: whoever reads it can order",
            remedy=f"chmod 600 {shlex.quote(str(path))}",
        )
