"""The flag server: one registry, its state served over HTTP, each flag with a deadline, kills that nothing but people end.

1. `python -m drillmaster.flags SETTINGS_JSON` is one process. The conductor drives it over a Unix socket as it drives the
   wire proxy (`control`); people switch over HTTP with tokens; workers and OpenFeature SDKs read.
2. A chaos flag is on until its lift, its window's deadline, `auto_off_s` after it went on, or the end of its deadline's day,
   whichever comes first. A restarted server has none on. Who reads is given a lease with each answer and goes by it: a
   server that died, or that cannot be reached, holds no flag on for longer than that.
3. A kill is on the disk before it is said to be done, and a restarted server has it. Only `/restore` ends it. A file of
   kills that cannot be read kills all that can be killed.
4. What cannot be written into the evidence is not put on; kills are, since not killing is the greater harm, and are said
   to be missing in it.
5. No input makes a traceback: a body that is no order is refused with the place of what is wrong.
"""
