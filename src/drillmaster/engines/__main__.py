"""`python -m drillmaster.engines`: one HTTP engine, told by a spec on standard input."""

from drillmaster.engines.http import main

raise SystemExit(main())
