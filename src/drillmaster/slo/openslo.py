"""A drill matrix as OpenSLO v1, and back.

1. Out: one `Service`, and one `SLO` a row, by its id. What OpenSLO has a word for is said in it: `op`, `value`, `target`, the
   indicator's kind. All of the row, and whose the matrix is, stands in the indicator's `metricSource.spec`, which is free for its
   type, here `drillmaster`; so a matrix that went out comes back as it was, by its digest.
2. A latency is a `thresholdMetric` of missions: p95 < 2.5 s is `op: lt, value: 2.5, target: 0.95`, by nearest rank the same
   sentence. A share is a `ratioMetric`, `target: 0.99`. All else is a `thresholdMetric` of the drill's own figure, one a drill: a
   delay, a kill, and a share that `target` cannot say, which has to be under 1 and means "at least". Its `target` is `ALL_GOOD`: of
   fewer than a hundred drills in a window one that is not good misses it.
3. In: objects of ours are read back, and what they say in OpenSLO's own words has to be what the row says. Others are rows once
   somebody says what measures them (`Asked`). What has no place in a matrix is refused by its pointer, all of it at once; who names
   a pointer in `without` leaves that out on purpose.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.gates._matrix_rows import MEASURES, Objective, Row
from drillmaster.interviews import QUANTILES
from drillmaster.slo.files import DrillMatrix, matrix_of

__all__ = ["ALL_GOOD", "Asked", "read_openslo", "write_openslo"]

API = "openslo/v1"
OURS = "drillmaster"
ALL_GOOD = 0.99
_OPS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_SIGNS = {word: sign for sign, word in _OPS.items()}
_UNITS = ("s", "ms")
_SPANS = ("mission_latency", "detector_delay", "pager_ack", "kill_switch")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_WEEK = {"duration": "1w", "isRolling": True}
_BREAK = re.compile(rb"^---(?:[ \t].*)?\r?$", re.MULTILINE)
_MOST_DOCUMENTS = 1_000


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of objects that are not ours."""

    rows: Mapping[str, Mapping[str, Any]] = {}
    """By the SLO's name: fields of its row that OpenSLO has no word for, `measure` first of all; of a span `unit`, s or ms."""
    source: str = ""
    owner: str = ""
    review_by: str = ""
    without: frozenset[str] = frozenset()
    """Pointers that are left out on purpose: `/spec/alertPolicies`, of every object."""


# Out


def write_openslo(matrix: DrillMatrix, *, place: str = "drill-matrix") -> list[dict[str, Any]]:
    """Write a matrix as OpenSLO objects. Raises Problem, by name, for what OpenSLO cannot say."""
    if _LABEL.fullmatch(matrix.service) is None:
        raise Problem(
            f"{place}: /service",
            found=strict.shown(matrix.service),
            wanted="a name that OpenSLO knows: lower-case letters, digits and -, at most 63",
            remedy="rename the service, in the matrix and in the plan",
        )
    about = {name: value for name, value in _plainly(matrix).items() if name != "rows"}
    service = {
        "apiVersion": API,
        "kind": "Service",
        "metadata": {"name": matrix.service},
        "spec": {"description": _short(f"Held against its drill matrix, of {matrix.owner}, from {matrix.source}")},
    }
    return [service, *(_slo(row, matrix.service, about) for row in matrix.rows)]


def _slo(row: Row, service: str, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "SLO",
        "metadata": {"name": row.id, "displayName": row.name},
        "spec": {
            "description": _short(f"{row.name}: {row.objective}. Owner: {row.owner}. Source: {row.source}"),
            "service": service,
            "indicator": {
                "metadata": {"name": row.id},
                "spec": _indicator(row, about),
            },
            "timeWindow": [dict(_WEEK)],
            "budgetingMethod": "Occurrences",
            "objectives": [{"displayName": row.objective, **_objective(row.asks, row)}],
        },
    }


def _indicator(row: Row, about: Mapping[str, Any]) -> dict[str, Any]:
    whole = {"metric": row.measure, "matrix": dict(about), "row": _plainly(row)}
    if not _is_ratio(row.asks, row):
        return {"thresholdMetric": _source(whole)}
    return {
        "ratioMetric": {
            "counter": True,
            "good": _source({**whole, "metric": f"{row.measure}_good"}),
            "total": _source({"metric": f"{row.measure}_total"}),
        }
    }


def _source(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metricSource": {"type": OURS, "spec": spec}}


def _is_ratio(objective: Objective, row: Row) -> bool:
    return objective.unit == "ratio" and objective.op == ">=" and objective.limit < 1


def _objective(objective: Objective, row: Row) -> dict[str, Any]:
    if _is_ratio(objective, row):
        return {"target": objective.limit}
    target = QUANTILES[objective.quantile] if objective.quantile else 1.0
    return {"op": _OPS[objective.op], "value": objective.limit, "target": target if target < 1 else ALL_GOOD}


def _plainly(value: Any) -> Any:
    """What a reader of the file finds: lists where we have tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _short(text: str) -> str:
    return text if len(text) <= 1_050 else f"{text[:1_047]}..."


# In


def read_openslo(
    data: bytes, *, place: str, fmt: strict.Format, asked: Asked | None = None
) -> tuple[DrillMatrix, tuple[str, ...]]:
    """Read OpenSLO v1 into a matrix. Returns it with what was left out on purpose. Raises Problem with all that has no place."""
    asked = asked or Asked()
    objects = list(_objects(data, place, fmt))
    slis, slos, services, wrong, left = {}, [], [], [], []
    for where, one in objects:
        kind, name = one.get("kind"), _name(one, where)
        if one.get("apiVersion") != API:
            raise Problem(
                f"{where}: /apiVersion",
                found=strict.shown(one.get("apiVersion")),
                wanted=API,
                remedy="convert it to OpenSLO v1 first",
            )
        if kind == "SLO":
            slos.append((where, name, one))
        elif kind == "SLI":
            slis[name] = one
        elif kind == "Service":
            services.append(name)
        elif f"/{kind}" in asked.without:
            left.append(f"{where}: {kind} {name}")
        else:
            wrong.append(f"{where}: {kind} {name} (leave it out: --without /{kind})")
    if not slos:
        raise Problem(place, found="no SLO", wanted="one at least", remedy="name the file that has the SLOs")
    rows, abouts, used = [], [], set()
    for where, name, one in slos:
        said = _Said(where, name, asked.without)
        row, about = said.read(one, slis, asked)
        used.add(one["spec"].get("service") if isinstance(one.get("spec"), dict) else None)
        wrong += said.wrong
        left += said.left
        rows.append(row)
        abouts.append(about)
    if wrong:
        raise Problem(
            place,
            found="; ".join(wrong),
            wanted="what a drill matrix has a place for",
            remedy="take it out, or leave it out on purpose: --without POINTER",
        )
    names = {str(one) for one in used} | set(services)
    if len(names) != 1:
        raise Problem(
            place,
            found=f"{len(names)} services: {', '.join(sorted(names))}",
            wanted="one: a matrix is of one service",
            remedy="import each service's SLOs from a file of its own",
        )
    matrix, _ = matrix_of({**_about(abouts, asked, place, names.pop()), "rows": rows}, place=place)
    return matrix, tuple(left)


def _about(abouts: Sequence[Mapping[str, Any] | None], asked: Asked, place: str, service: str) -> dict[str, Any]:
    own = [one for one in abouts if one is not None]
    if any(one != own[0] for one in own):
        raise Problem(
            place,
            found="rows of several matrices",
            wanted="rows of one: source, owner and review day are the matrix's",
            remedy="import each matrix from the file that it was exported to",
        )
    if own and len(own) == len(abouts):
        about = dict(own[0])
        if about.get("service") != service:
            raise Problem(
                place,
                found=f"SLOs of {service}, and rows of {about.get('service')}",
                wanted="one service",
                remedy="export the matrix again; do not edit what it wrote",
            )
        return about
    missing = [f"--{name.replace('_', '-')}" for name in ("source", "owner", "review_by") if not getattr(asked, name)]
    if missing:
        raise Problem(
            place,
            found=f"SLOs that say no {', '.join(one[2:] for one in missing)}",
            wanted="who answers for the numbers, from which document, until when",
            remedy=f"say it: drillmaster matrix import FILE {' '.join(f'{one} ...' for one in missing)}",
        )
    return {
        "kind": "drill-matrix",
        "version": 1,
        "service": service,
        "source": asked.source,
        "owner": asked.owner,
        "review_by": asked.review_by,
    }


class _Said:
    """One SLO: what of it has a place in a row, and what has none."""

    def __init__(self, where: str, name: str, without: frozenset[str]) -> None:
        self.where, self.name = where, name
        self.without = without
        self.wrong: list[str] = []
        self.left: list[str] = []

    def _no_place(self, pointer: str, why: str) -> None:
        bare = re.sub(r"/\d+(?=/|$)", "", pointer)
        if bare in self.without:
            self.left.append(f"{self.where}: {self.name} {pointer}")
        else:
            self.wrong.append(f"{self.where}: {self.name} {pointer}, {why}")

    def _only(self, value: Any, pointer: str, known: Sequence[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.wrong.append(f"{self.where}: {self.name} {pointer}, which is no object")
            return {}
        for key in value:
            if key not in known:
                self._no_place(f"{pointer}/{key}", "which a matrix has no place for")
        return value

    def read(
        self, slo: dict[str, Any], slis: Mapping[str, Any], asked: Asked
    ) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
        self._only(slo, "", ("apiVersion", "kind", "metadata", "spec"))
        meta = self._only(slo.get("metadata"), "/metadata", ("name", "displayName"))
        spec = self._only(
            slo.get("spec"),
            "/spec",
            ("description", "service", "indicator", "indicatorRef", "timeWindow", "budgetingMethod", "objectives"),
        )
        if spec.get("budgetingMethod") != "Occurrences":
            self._no_place(
                "/spec/budgetingMethod", f"found {strict.shown(spec.get('budgetingMethod'))}, wanted Occurrences"
            )
        objectives = spec.get("objectives")
        if not isinstance(objectives, list) or len(objectives) != 1 or not isinstance(objectives[0], dict):
            self.wrong.append(f"{self.where}: {self.name} /spec/objectives, of which a row has exactly one")
            return {}, None
        objective = self._only(
            objectives[0], "/spec/objectives/0", ("displayName", "op", "value", "target", "targetPercent")
        )
        indicator = self._indicator(spec, slis)
        ours = _ours(indicator)
        if ours is not None:
            return self._back(ours, slo, objective), ours.get("matrix")
        return self._foreign(meta, spec, indicator, objective, asked), None

    def _indicator(self, spec: Mapping[str, Any], slis: Mapping[str, Any]) -> dict[str, Any]:
        inline, named = spec.get("indicator"), spec.get("indicatorRef")
        found = inline if inline is not None else slis.get(str(named))
        if not isinstance(found, dict) or (inline is not None and named is not None):
            what = f"indicatorRef {named!r}, which is not in the file" if named is not None else "no indicator"
            self.wrong.append(f"{self.where}: {self.name} /spec, {what}")
            return {}
        inner = found.get("spec")
        return inner if isinstance(inner, dict) else {}

    def _back(self, ours: Mapping[str, Any], slo: dict[str, Any], objective: Mapping[str, Any]) -> dict[str, Any]:
        """Rule 3: OpenSLO's own words have to be the row's, or somebody has edited one of the two."""
        entry = ours.get("row")
        row: Row = strict.as_type(entry, Row, place=f"{self.where}: {self.name}", path=("row",))
        again = _slo(row, str(slo["spec"].get("service")), ours.get("matrix") or {})
        for pointer, mine, theirs in (
            ("/metadata/name", again["metadata"]["name"], slo["metadata"].get("name")),
            ("/metadata/displayName", again["metadata"]["displayName"], slo["metadata"].get("displayName")),
            ("/spec/objectives/0", again["spec"]["objectives"][0], dict(objective)),
            ("/spec/timeWindow", again["spec"]["timeWindow"], slo["spec"].get("timeWindow")),
            ("/spec/indicator", again["spec"]["indicator"], slo["spec"].get("indicator")),
            ("/spec/description", again["spec"]["description"], slo["spec"].get("description")),
        ):
            if mine != theirs:
                self.wrong.append(
                    f"{self.where}: {self.name} {pointer}, which is not what its row says: edit the matrix and export it"
                )
        return dict(entry) if isinstance(entry, dict) else {}

    def _foreign(
        self,
        meta: Mapping[str, Any],
        spec: Mapping[str, Any],
        indicator: Mapping[str, Any],
        objective: Mapping[str, Any],
        asked: Asked,
    ) -> dict[str, Any]:
        said = asked.rows.get(self.name)
        if said is None or said.get("measure") not in MEASURES:
            self.wrong.append(
                f"{self.where}: {self.name} /spec/indicator, of which nobody says what measures it: "
                f"--row {self.name}=FILE with measure ({', '.join(MEASURES)}), probe and window"
            )
            return {}
        if "timeWindow" in spec:
            self._no_place("/spec/timeWindow", "since a row is judged on the windows of a drill")
        # The query is another system's: what measures the row is said by the person, and the drill measures it.
        self._no_place(
            "/spec/indicator" if "indicator" in spec else "/spec/indicatorRef",
            "whose query no drill asks: the row's measure takes its place",
        )
        row = {
            "id": self.name,
            "name": meta.get("displayName") or self.name,
            "objective": self._sentence(objective, ratio="ratioMetric" in indicator, said=said),
            "window": "all",
            "owner": asked.owner,
            "source": asked.source,
        }
        if spec.get("description"):
            self._no_place("/spec/description", "a row has a name and a source")
        return {**row, **{name: value for name, value in said.items() if name != "unit"}}

    def _sentence(self, objective: Mapping[str, Any], *, ratio: bool, said: Mapping[str, Any]) -> str:
        """Say an objective as a row does; what it cannot say is among what is wrong."""
        measure, unit = str(said["measure"]), said.get("unit")
        target = _number(objective.get("target"))
        percent = _number(objective.get("targetPercent"))
        if target is None and percent is not None:
            target = percent / 100
        if target is None:
            self.wrong.append(f"{self.where}: {self.name} /spec/objectives/0/target, which is missing")
            return ""
        if ratio:
            return f">= {_plain(target * 100)} %"
        sign, value = _SIGNS.get(str(objective.get("op"))), _number(objective.get("value"))
        if sign is None or value is None:
            self.wrong.append(f"{self.where}: {self.name} /spec/objectives/0, without op and value")
            return ""
        if measure in _SPANS and unit not in _UNITS:
            self.wrong.append(
                f"{self.where}: {self.name} /spec/objectives/0/value, found {value:g} without a unit, which OpenSLO has none for: "
                f"--row {self.name}=FILE with unit ({', '.join(_UNITS)})"
            )
        if measure == "mission_latency":
            name = next((name for name, q in QUANTILES.items() if abs(q - target) < 1e-9), None)
            if name is None:
                self.wrong.append(
                    f"{self.where}: {self.name} /spec/objectives/0/target, found {target:g}, wanted one of "
                    f"{', '.join(str(q) for q in QUANTILES.values() if q < 1)}"
                )
            return f"{name} {sign} {_plain(value)} {unit}"
        if measure in _SPANS:
            self._no_place("/spec/objectives/target", f"found {target:g}: a drill judges each one")
            return f"{sign} {_plain(value)} {unit}"
        self._no_place("/spec/objectives/target", f"found {target:g}: a drill judges its own share")
        return f"{sign} {_plain(value * 100)} %"


def _ours(indicator: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What stands in the free part of an indicator of ours; None: it is another's."""
    metric = indicator.get("thresholdMetric")
    if metric is None and isinstance(indicator.get("ratioMetric"), dict):
        metric = indicator["ratioMetric"].get("good")
    source = metric.get("metricSource") if isinstance(metric, dict) else None
    if not isinstance(source, dict) or source.get("type") != OURS or not isinstance(source.get("spec"), dict):
        return None
    spec: Mapping[str, Any] = source["spec"]
    return spec if "row" in spec and isinstance(spec.get("matrix"), dict) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _plain(value: float) -> str:
    text = f"{value:.9f}".rstrip("0").rstrip(".")
    return text or "0"


def _name(one: dict[str, Any], where: str) -> str:
    meta = one.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or _LABEL.fullmatch(name) is None:
        raise Problem(
            f"{where}: /metadata/name",
            found=strict.shown(name),
            wanted="lower-case letters, digits and -, at most 63",
            remedy="rename the object",
        )
    return name


def _objects(data: bytes, place: str, fmt: strict.Format) -> Iterator[tuple[str, dict[str, Any]]]:
    """One object after another: a list of them, or in YAML several documents."""
    texts = [data]
    if fmt == "yaml":
        texts = [one for one in _BREAK.split(data) if one.strip()] or [data]
    if len(texts) > _MOST_DOCUMENTS:
        raise Problem(
            place, found=f"{len(texts):,} documents", wanted=f"at most {_MOST_DOCUMENTS:,}", remedy="split the file"
        )
    for number, text in enumerate(texts, 1):
        where = place if len(texts) == 1 else f"{place}, document {number}"
        loaded = strict.load(text, place=where, fmt=fmt)
        for index, one in enumerate(loaded if isinstance(loaded, list) else [loaded]):
            here = f"{where}: /{index}" if isinstance(loaded, list) else where
            if not isinstance(one, dict):
                raise Problem(here, found=strict.shown(one), wanted="an OpenSLO object", remedy="mend that value")
            yield here, one
