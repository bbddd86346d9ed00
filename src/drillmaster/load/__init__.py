"""The run of a load interview, from its plan to the seal, and what a sealed one found.

1. Nothing is sent before everything was checked, and nothing during the idle time: the engine is started after it.
2. One interview a target at a time. The name is looked up once; the engine is handed the addresses.
3. The cold call has an engine and a connection of its own. Where its answer says that the plan cannot work (no key, a wrong
   path, a body that the API refuses) the ladder is not begun.
4. Whatever ends a run, what was measured is sealed; what was not is named. Only a run of all its steps exits 0.
"""
