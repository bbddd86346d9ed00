"""`drillmaster stop`: end the drill. The Lead's order."""

from drillmaster.cli._orders import lead_order

__all__ = ["command"]


@lead_order("stop")
def command() -> None:
    """Lift the fault, seal what there is, and end the drill with exit code 3. A stopped drill is not judged.

    An interview is stopped too: it has no fault to lift and asks for no token, since whoever may signal its process may end it.
    """
