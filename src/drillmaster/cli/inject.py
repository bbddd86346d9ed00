"""`drillmaster inject`: put the fault on. The Lead's order."""

from drillmaster.cli._orders import lead_order

__all__ = ["command"]


@lead_order("inject")
def command() -> None:
    """Take the model endpoint away now. Only the Lead's token does this, in a drill's baseline, inside the agreed window.

    Say the time aloud: it is the anchor of everything that is judged.
    """
