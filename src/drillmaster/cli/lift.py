"""`drillmaster lift`: take the fault off. The Lead's order."""

from drillmaster.cli._orders import lead_order

__all__ = ["command"]


@lead_order("lift")
def command() -> None:
    """Give the model endpoint back now. The drill goes on to its recovery."""
