"""`python -m drillmaster`: the command line, where no script is on the path."""

import gc

if __name__ == "__main__":
    gc.disable()  # what modules are made of stays: to look for garbage in it takes longer than to read some of them
    from drillmaster.cli import main

    gc.enable()
    main()
