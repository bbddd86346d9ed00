"""Synthetic missions, sent: a process of its own that keeps hundreds of users busy with an agent, and writes what became of each.

`process.Driver` starts and drives it, `preparing.prepare` makes what it needs of a plan's section. What a mission is stands in
`friday.missions`.
"""
