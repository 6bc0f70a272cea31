"""Plots as SVG files: one curve in each of some panels over one axis. Needs no library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from pathlib import Path

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 76, 20, 34, 44
INK, LINE = "#333", "#1f6fb4"


@dataclass(frozen=True)
class Panel:
    """A curve and what its vertical axis shows, which begins at 0."""

    label: str
    points: Sequence[tuple[float, float]]


def ticks(most: float, wanted: int = 5) -> list[float]:
    """Round numbers from 0 to `most`, about as many as wanted."""
    if most <= 0:
        return [0.0]
    step = most / wanted
    unit = 10.0 ** floor(log10(step))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= step)
    return [step * i for i in range(int(most / step + 1e-9) + 1)]


def draw(path: Path, title: str, axis: str, panels: Sequence[Panel]) -> None:
    """Write the panels below each other, the horizontal axis from 0 to the largest value."""
    right = max(x for panel in panels for x, _ in panel.points)
    whole = HEIGHT * len(panels) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{whole}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="15">{escape(title)}</text>',
    ]
    for i, panel in enumerate(panels):
        parts += panel_parts(panel, i * HEIGHT + 24, right)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{whole - 6}" text-anchor="middle">{escape(axis)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


def panel_parts(panel: Panel, top: float, right: float) -> list[str]:
    """The lines of one panel, `right` being the largest value of the horizontal axis."""
    most = max(y for _, y in panel.points) * 1.05 or 1.0
    low, high = top + HEIGHT - BOTTOM, top + TOP

    def at(x: float, y: float) -> tuple[float, float]:
        across = x / (right or 1.0) * (WIDTH - LEFT - RIGHT)
        return round(LEFT + across, 1), round(low - y / most * (low - high), 1)

    parts = [f'<text x="{LEFT}" y="{high - 8}">{escape(panel.label)}</text>']
    for value in ticks(most):
        _, y = at(0, value)
        parts.append(f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{value:g}</text>')
    for value in ticks(right, 8):
        x, _ = at(value, 0)
        parts.append(f'<text x="{x}" y="{low + 16}" text-anchor="middle">{value:g}</text>')
    points = [at(x, y) for x, y in panel.points]
    line = " ".join(f"{x},{y}" for x, y in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{LINE}" stroke-width="2"/>')
    parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{LINE}"/>' for x, y in points]
    return parts
