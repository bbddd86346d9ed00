"""Who answers for limits in a format that has no field for it: `FILE.pin.yaml` beside it (source, owner, review_by, sha256)."""

import hashlib
import os
from pathlib import Path

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.intake import read_bytes
from drillmaster.policy import Pin

__all__ = ["SUFFIX", "pin_beside", "pin_of"]

SUFFIX = ".pin.yaml"
_CAP_BYTES = 1 << 16


class _PinFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    owner: str
    review_by: str
    sha256: str


def pin_beside(path: Path, raw: bytes) -> Pin | None:
    """Read the pin beside a file whose bytes are `raw`; None: there is none. Raises Problem where it pins other bytes."""
    beside = path.with_name(path.name + SUFFIX)
    if not os.path.lexists(beside):
        return None
    return pin_of(read_bytes(beside, _CAP_BYTES), raw, place=str(beside), name=path.name)


def pin_of(data: bytes, raw: bytes, *, place: str, name: str) -> Pin:
    """Decode a pin and hold it against the bytes it is for. `name` is what a person calls that file. Raises Problem."""
    pin = strict.load_as(data, _PinFile, place=place, fmt="yaml")
    found = hashlib.sha256(raw).hexdigest()
    if pin.sha256.removeprefix("sha256:") != found:
        raise Problem(
            f"{place}: /sha256",
            found=f"{pin.sha256[:19]}, and {name} is {found[:12]}",
            wanted="the digest of the thresholds that were signed",
            remedy=f"have {pin.owner or 'its owner'} read the thresholds again, then: sha256sum {name}",
        )
    return Pin(source=pin.source, owner=pin.owner, review_by=pin.review_by)
