"""The proxy: an HTTP/1.1 reverse proxy on loopback that passes through to a real model endpoint, and fails on order.

`python -m drillmaster.proxy JSON` runs one (`Settings`); `drillmaster proxy` is the same for people. The rooms: `relay`
(connections and exchanges), `pool` (upstream connections), `driver` (scripts of faults), `switch` (which fault is on, and
until when), `control` (the door for orders), `server` (the process).
"""

from drillmaster.proxy.settings import Limits, Settings, Upstream

__all__ = ["Limits", "Settings", "Upstream"]
