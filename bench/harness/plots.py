"""Plots as SVG files: curves in each of some panels over one axis. Needs no library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from pathlib import Path

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 76, 20, 34, 44
# Names of curves stand beside them, where none can pass.
NAMES = 170
INK = "#333"
# Told apart in print and by those who see few colours; so many of each that pairs differ.
COLOURS = ("#1f6fb4", "#d95f02", "#1b9e77", "#7b3294", "#666666", "#c51b7d")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 3", "10 4", "4 4")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """What its vertical axis shows, which begins at 0, and a curve, or some by name."""

    label: str
    points: Points | Mapping[str, Points]

    @property
    def curves(self) -> Mapping[str, Points]:
        """Every curve by its name; one alone has none."""
        return self.points if isinstance(self.points, Mapping) else {"": self.points}

    def all_points(self) -> list[tuple[float, float]]:
        """Those of all curves."""
        return [point for points in self.curves.values() for point in points]


def ticks(most: float, wanted: int = 5) -> list[float]:
    """Round numbers from 0 to `most`, about as many as wanted."""
    if most <= 0:
        return [0.0]
    step = most / wanted
    unit = 10.0 ** floor(log10(step))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= step)
    return [step * i for i in range(int(most / step + 1e-9) + 1)]


def draw(path: Path, title: str, axis: str, panels: Sequence[Panel], left: float = 0.0) -> None:
    """Write the panels below each other, the horizontal axis from `left` to the largest value."""
    right = max(x for panel in panels for x, _ in panel.all_points())
    named = any(name for panel in panels for name in panel.curves)
    edge = WIDTH - RIGHT - (NAMES if named else 0)
    whole = HEIGHT * len(panels) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{whole}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="15">{escape(title)}</text>',
    ]
    for i, panel in enumerate(panels):
        parts += panel_parts(panel, i * HEIGHT + 24, (left, right), edge)
    middle = (LEFT + edge) / 2
    parts.append(f'<text x="{middle}" y="{whole - 6}" text-anchor="middle">{escape(axis)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


def panel_parts(
    panel: Panel, top: float, axis: tuple[float, float], edge: float
) -> list[str]:
    """The lines of one panel, whose horizontal axis ends at `edge`, with these values at its ends."""
    left, right = axis
    most = max(y for _, y in panel.all_points()) * 1.05 or 1.0
    low, high = top + HEIGHT - BOTTOM, top + TOP

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - left) / ((right - left) or 1.0) * (edge - LEFT)
        return round(LEFT + across, 1), round(low - y / most * (low - high), 1)

    parts = [f'<text x="{LEFT}" y="{high - 8}">{escape(panel.label)}</text>']
    for value in ticks(most):
        _, y = at(left, value)
        parts.append(f'<path d="M{LEFT} {y}H{edge}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{value:g}</text>')
    for step in ticks(right - left, 8):
        x, _ = at(left + step, 0)
        parts.append(f'<text x="{x}" y="{low + 16}" text-anchor="middle">{left + step:g}</text>')
    for i, (name, points) in enumerate(panel.curves.items()):
        parts += curve_parts(name, i, [at(x, y) for x, y in points], (edge + 12, high))
    return parts


def curve_parts(
    name: str, number: int, points: Points, names: tuple[float, float]
) -> list[str]:
    """A curve, and its name in the column that begins at `names`."""
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    stroke = f'stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
    line = " ".join(f"{x},{y}" for x, y in points)
    parts = [f'<polyline points="{line}" fill="none" {stroke}/>']
    parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points]
    if name:
        x, y = names[0], names[1] + 6 + 16 * number
        parts.append(f'<path d="M{x} {y}H{x + 24}" {stroke}/>')
        parts.append(f'<text x="{x + 30}" y="{y + 4}">{escape(name)}</text>')
    return parts
