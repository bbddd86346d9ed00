"""What a Friday drill found: missions under load, the chaos that met them, the alerts, the transcripts, the kill.

1. Time counts from the run's zero. A mission belongs to the window in which it was due: before the first injection, from it to
   its lift, after the last one. Its latency counts from when it was due; one that was cut, never sent or never ended took "at
   least" so long, and one that failed is in no latency and in every count of success.
2. In flight is what the missions' own spans say, from the first byte sent to the end, weighted by time; the driver's count of
   each second is held beside it, and the lower of the two counts.
3. A tool's success is counted by mission, after all its attempts. A mission whose tool call began and never ended well did not
   succeed. One whose tool was refused by a kill switch that was on says nothing of tools, and is counted apart.
4. A flag is proven on by missions that met it, as workers counted them, and by each worker's sight of the revision that turned
   it on.
5. A kill took until the end of the last call of the capability that ran after it, and until each worker held it. Without a call
   that was refused nothing is proven.
"""

from drillmaster.fridays.counting import Held, Recovered
from drillmaster.fridays.shapes import (
    CUT,
    FAILED,
    NO_TOOLS,
    OK,
    OPEN,
    UNSENT,
    WINDOWS,
    Chaos,
    FlagOn,
    Friday,
    HeldAt,
    Killed,
    LoadEnded,
    Missions,
    Phase,
    Sight,
    WindowName,
)

__all__ = [
    "CUT",
    "FAILED",
    "NO_TOOLS",
    "OK",
    "OPEN",
    "UNSENT",
    "WINDOWS",
    "Chaos",
    "FlagOn",
    "Friday",
    "Held",
    "HeldAt",
    "Killed",
    "LoadEnded",
    "Missions",
    "Phase",
    "Recovered",
    "Sight",
    "WindowName",
]
