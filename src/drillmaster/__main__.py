"""`python -m drillmaster`: the command line, where no script is on the path."""

from drillmaster.cli import main

main()
