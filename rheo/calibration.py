"""What slots are worth: estimates of their chance of acceptance, fixed before the round they are used in."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

Number = Fraction | float | int
Curve = tuple[tuple[Number, Number], ...]  # (x, value): straight between its points


def line(slope: Number) -> Curve:
    """From (0, 0) to (1, slope)."""
    return (0, 0), (1, slope)


@dataclass(frozen=True)
class Calibration:
    """The value of a slot relative to its parent's, as a function of x: for an anchor or a filler its own q, for a
    probe z, the mass of the tail it is drawn from.

    Each holds a curve for every depth of the parent, 0 for the root; the last one goes for all below. The probe is
    worth the larger of its own value and the best filler's, which is known before it is drawn.

    Raises ValueError, naming the slot, unless every curve rises (or stays) from x = 0 to x = 1 within 0..1.
    """

    anchor: tuple[Curve, ...] = (line(1),)
    probe: tuple[Curve, ...] = (line(Fraction(4, 5)),)
    filler: tuple[Curve, ...] = (line(Fraction(1, 2)),)

    def __post_init__(self) -> None:
        for field in fields(self):
            curves = getattr(self, field.name)
            if not curves:
                raise ValueError(f"{field.name}: there is no curve")
            for curve in curves:
                if len(curve) < 2 or curve[0][0] != 0 or curve[-1][0] != 1:
                    raise ValueError(f"{field.name}: a curve must go from x = 0 to x = 1")
                if any(not (a[0] < b[0] and 0 <= a[1] <= b[1] <= 1) for a, b in pairwise(curve)):
                    raise ValueError(f"{field.name}: a curve must not fall, nor leave 0..1")

    def at(self, temperature: Number) -> Calibration:  # noqa: ARG002
        """Itself, at every temperature."""
        return self


@dataclass(frozen=True)
class ByTemperature:
    """Calibrations with the temperature of each: a slot's q is untempered, but what accepts it is p at temperature T.

    ValueError for none at all, or a negative temperature.
    """

    fits: tuple[tuple[Number, Calibration], ...]

    def __post_init__(self) -> None:
        if not self.fits or min(temperature for temperature, _ in self.fits) < 0:
            raise ValueError("temperatures: there must be some, none below 0")

    def __str__(self) -> str:
        return json.dumps(to_json(self))

    def at(self, temperature: Number) -> Calibration:
        """The one of the nearest temperature; the lower of two."""
        return min(self.fits, key=lambda fit: (abs(fit[0] - temperature), fit[0]))[1]


AnyCalibration = Calibration | ByTemperature


def scaled(c: Number, filler: Number) -> Calibration:
    """The form of two numbers: anchors count with q, the probe with c z, fillers with `filler` (lambda) times q."""
    return Calibration(probe=(line(c),), filler=(line(filler),))


def at_depth(curves: tuple[Curve, ...], depth: int) -> Curve:
    """The curve for the children of a parent at this depth."""
    return curves[min(depth, len(curves) - 1)]


def stretched(calibration: Calibration, factors: tuple[Number, Number, Number]) -> Calibration:
    """With the values of anchors, probes and fillers times these factors >= 0, but never above 1."""
    names = [field.name for field in fields(Calibration)]
    return Calibration(
        **{
            name: tuple(_stretched(curve, factor) for curve in getattr(calibration, name))
            for name, factor in zip(names, factors, strict=True)
        }
    )


def from_json(value: Any) -> AnyCalibration:
    """A Calibration from {"c": .., "lambda": ..} (see `scaled`), or from curves by slot, {"probe": [[[x, value], ..]]};
    what is left out is as by default. Several of them by their temperatures: {"temperatures": {"0.6": ..}, "made": ..},
    where "made" may say how. Numbers are JSON's, or strings such as "4/5". ValueError says what is wrong.
    """
    if not isinstance(value, dict):
        raise ValueError("must be an object")
    if "temperatures" in value and value.keys() <= {"temperatures", "made"}:
        if not isinstance(value["temperatures"], dict):
            raise ValueError("temperatures: must be an object")
        fits = [(_number("temperatures", key), _one(each)) for key, each in value["temperatures"].items()]
        return ByTemperature(tuple(fits))
    return _one(value)


def to_json(calibration: AnyCalibration) -> dict[str, Any]:
    """The shortest value that `from_json` reads back."""
    if isinstance(calibration, ByTemperature):
        return {"temperatures": {str(_plain(heat)): to_json(each) for heat, each in calibration.fits}}
    (c, *deeper), (share, *more) = calibration.probe, calibration.filler
    if not (deeper or more) and calibration == scaled(c[-1][1], share[-1][1]):
        return {"c": _plain(c[-1][1]), "lambda": _plain(share[-1][1])}
    return {
        field.name: [[[_plain(x), _plain(y)] for x, y in curve] for curve in getattr(calibration, field.name)]
        for field in fields(calibration)
    }


def read(path: Path) -> AnyCalibration:
    """The calibration in a JSON file; ValueError, one line that names the file."""
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: no calibration: {error}") from error


def _stretched(curve: Curve, factor: Number) -> Curve:
    points = [(x, y * factor) for x, y in curve]
    inside = [point for point in points if point[1] <= 1]
    if len(inside) == len(points):
        return tuple(points)
    if not inside:
        return (0, 1), (1, 1)
    (a, low), (b, high) = points[len(inside) - 1], points[len(inside)]
    crossing = a + (b - a) * (1 - low) / (high - low)
    return (*inside, *(((crossing, 1),) if a < crossing < 1 else ()), (1, 1))


def _one(value: Any) -> Calibration:
    if not isinstance(value, dict):
        raise ValueError("must be an object")
    short, long = {"c", "lambda"}, {field.name for field in fields(Calibration)}
    if value.keys() <= short:
        return scaled(_number("c", value.get("c", "4/5")), _number("lambda", value.get("lambda", "1/2")))
    if not value.keys() <= long:
        raise ValueError(f"must hold c and lambda, or some of {', '.join(sorted(long))}")
    return Calibration(**{slot: _curves(slot, curves) for slot, curves in value.items()})


def _curves(slot: str, value: Any) -> tuple[Curve, ...]:
    try:
        return tuple(tuple((_number(slot, x), _number(slot, y)) for x, y in curve) for curve in value)
    except TypeError:
        raise ValueError(f"{slot}: must be a list of curves, which are lists of points [x, value]") from None


def _number(key: str, value: Any) -> Fraction:
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return Fraction(str(value))  # a float's decimals as they are written
    except (ValueError, ZeroDivisionError, OverflowError):
        pass
    raise ValueError(f'{key}: must be a number or a string such as "4/5", got {str(value)[:40]!r}')


def _plain(number: Number) -> int | str:
    exact = Fraction(number)
    return exact.numerator if exact.denominator == 1 else str(exact)
