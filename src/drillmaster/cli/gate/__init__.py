"""`drillmaster gate`: judge evidence by a policy. The exit code is the verdict. One file a gate, and those about gates."""

from drillmaster.cli import Verbs

__all__ = ["command"]

command = Verbs(
    package=__name__,
    name="gate",
    help="""Judge evidence by a policy: 0 pass, 1 fail, 2 refused.

    A gate is pure: the same evidence, policy and --now give the same verdict on any machine. In CI name the ref that a change
    is for with --base: policy and lists are then read from there, and a change to what judges it is a finding.

    \b
    Begin with:
      drillmaster gate list               # what can be judged, and by what
      drillmaster gate explain canary     # what each check asks, and how it is mended
      drillmaster gate selftest           # every check is shown to go red and green
    """,
)
