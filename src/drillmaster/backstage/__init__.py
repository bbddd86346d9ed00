"""What stands behind the pytest plugin's fixtures: a provider with faults in a process of its own, and the hold on it.

1. The tests' process opens no socket of ours, runs no loop, starts no thread and patches nothing: it asks over a pipe, and
   works in async tests and under frozen clocks as it does elsewhere.
2. One process a session, and a session is one worker of xdist. It ends with that session, however that ends.
3. A fault that a test asked for and that met nobody fails the test: it has shown nothing.

The rooms: `around` (pytest's hooks), `asking` (a test's words, as rules), `child` (the process, from outside), `provider`
(what a test holds), `seen` (what the wire saw, typed and as text), `stage` (the process, from inside; `python -m
drillmaster.backstage`).
"""
