"""The command line: `drillmaster`, or `python -m drillmaster` where no script is on the path."""

import gc

__all__ = ["main"]


def main() -> None:
    """Import the command line and run it; ends the process."""
    gc.disable()  # what modules are made of stays: to look for garbage in it takes longer than to read some of them
    from drillmaster.cli import main as run

    gc.enable()
    run()


if __name__ == "__main__":
    main()
