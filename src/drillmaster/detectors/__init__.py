"""The listener for the alert itself: webhooks of pagers, messages, lines of a log, a file; each becomes a line of evidence.

`python -m drillmaster.detectors JSON` runs one (`settings.Settings`). The rooms: `reading` (what a form says, as values), `door`
(HTTP), `watching` (logs and files), `listener` (the process). Which alert counts is `rules/alerts`.
"""
