"""A comparison as one page that needs nothing beside it: old and new profiles as small multiples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from reporter.charts.numbers import short
from reporter.diff.comparison import Comparison
from reporter.diff.numbers import MOST_PROFILES
from reporter.diff.side import DATABASE, Side

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 260, 130, 62, 18, 8
_NAMES = ("metric", "statistic", "model", "checkpoint", "corpus", "view")
_STYLE = """
:root { color-scheme: light dark; --paper: light-dark(#fbfaf7, #12161c); --card: light-dark(#fff, #171b22);
  --ink: light-dark(#1c2330, #e7eaf0); --quiet: light-dark(#5b6472, #a0a9b8); --line: light-dark(#d4d4d8, #3b424e);
  --a: light-dark(#5b6472, #a0a9b8); --b: light-dark(#cf4a08, #ff8a38); }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 ui-sans-serif, system-ui, sans-serif; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; } p { max-width: 46rem; }
.quiet, figcaption { color: var(--quiet); }
.key svg { vertical-align: middle; } .key span { margin-right: 1.5rem; overflow-wrap: anywhere; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .8rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
figcaption { font-size: .85rem; overflow-wrap: anywhere; } figcaption b { color: var(--ink); }
figure svg { width: 100%; height: auto; display: block; overflow: visible; }
svg text { font-size: 11px; fill: var(--quiet); font-family: inherit; } .axis { stroke: var(--line); }
.a { stroke: var(--a); } .b { stroke: var(--b); } .a, .b { fill: none; stroke-width: 2; } .a { stroke-dasharray: 5 3; }
.band-a { fill: var(--a); } .band-b { fill: var(--b); } .band-a, .band-b { opacity: .18; } .moved { fill: var(--b); }
pre { overflow-x: auto; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  font-size: .85rem; line-height: 1.4; }
@media print { figure { break-inside: avoid; } pre { white-space: pre-wrap; } }
"""


def page(found: Comparison, sections: Sequence[str]) -> str:
    """Write a comparison as HTML.

    Args:
        found: what differs.
        sections: what the table says, part by part.

    Returns:
        The page, without a line break at its end.
    """
    a, b = _named(found.a), _named(found.b)
    rows = [dict(zip(found.profiles.columns, row, strict=True)) for row in found.profiles.rows]
    figures = [_figure(list(own)) for _, own in groupby(rows, key=lambda row: [row[name] for name in _NAMES])]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Difference of {escape(a)} and {escape(b)}</title><style>{_STYLE}</style></head><body><main>",
        "<h1>What differs</h1>",
        f'<p class="key"><span>{_sample("a")} A: {escape(a)}</span><span>{_sample("b")} B: {escape(b)}</span></p>',
        *_profiles(figures),
        *(_section(section) for section in sections[1:]),
        "</main></body></html>",
    ]
    return "\n".join(parts)


def _named(side: Side) -> str:
    """What a side is called on a page that is sent to others: where it lies on this machine is not theirs to know."""
    folder = side.database.parent if side.database.name == DATABASE else side.database
    return f"{folder.name}:{side.study}" if folder.is_absolute() else str(side)


def _profiles(figures: Sequence[str]) -> Iterator[str]:
    yield "<h2>Profiles that moved</h2>"
    if not figures:
        yield '<p class="quiet">In no profile over layers a number moved beyond its interval.</p>'
        return
    most = f" The {MOST_PROFILES} that moved furthest are drawn." if len(figures) == MOST_PROFILES else ""
    yield (
        f'<p class="quiet">A number over layers, with its interval where it has one. A dot is a number of B that lies '
        f"further from A's than the interval of their difference (paired over texts where it is known, else of "
        f"independent estimates), as one in twenty does by "
        f"chance. What moved furthest comes first.{most}</p>"
    )
    yield f'<div class="grid">{"".join(figures)}</div>'


def _section(text: str) -> str:
    head, _, body = text.partition("\n")
    table = f'<pre tabindex="0">{escape(body)}</pre>' if body else ""
    return f"<h2>{escape(head)}</h2>{table}"


def _figure(rows: Sequence[Mapping[str, Any]]) -> str:
    first = rows[0]
    where = [str(first[name]) for name in _NAMES[2:] if first[name] is not None and first[name] != "final"]
    moved = sum(row["change"] == "moved" for row in rows)
    furthest = f", by up to {first['furthest']:.3g} intervals" if first["furthest"] else ""
    said = f"{moved} of {len(rows)} layers moved{furthest}"
    name = f"{first['metric']}.{first['statistic']}"
    label = escape(f"{name}, {', '.join(where)}: {said}")
    return (
        f"<figure><figcaption><b>{_breaking(name)}</b><br>{escape(' · '.join(where))}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{_drawing(rows)}</svg>'
        f"<figcaption>{escape(said)}</figcaption></figure>"
    )


def _breaking(name: str) -> str:
    """A full name that a narrow column breaks between its words."""
    return re.sub(r"[._]", r"\g<0><wbr>", escape(name))


def _drawing(rows: Sequence[Mapping[str, Any]]) -> str:
    numbers = [row[name] for row in rows for name in ("a", "b", "low_a", "high_a", "low_b", "high_b")]
    seen = [float(number) for number in numbers if _is_number(number)]
    low, high = min(seen), max(seen)
    if low == high:
        low, high = low - (abs(low) or 1) * 0.1, high + (abs(high) or 1) * 0.1
    last = max(1, *(int(row["layer"]) for row in rows))

    def x(layer: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * layer / last

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    def points(name: str, own: Sequence[Mapping[str, Any]]) -> list[str]:
        return [f"{x(row['layer']):.1f},{y(row[name]):.1f}" for row in own]

    base = HEIGHT - BOTTOM
    parts = [f'<path class="axis" d="M{LEFT} {TOP}V{base}H{WIDTH - 8}" fill="none"/>']
    for value, place in ((high, TOP + 8), (low, base)):
        parts.append(f'<text x="{LEFT - 4}" y="{place}" text-anchor="end">{short(value)}</text>')
    for layer in (0, last):
        parts.append(f'<text x="{x(layer):.1f}" y="{HEIGHT - 5}" text-anchor="middle">{layer}</text>')
    parts.append(f'<text x="{x(last / 2):.1f}" y="{HEIGHT - 5}" text-anchor="middle">layer</text>')
    for side in "ab":
        ends = [row for row in rows if _is_number(row[f"low_{side}"]) and _is_number(row[f"high_{side}"])]
        if len(ends) > 1:
            band = points(f"low_{side}", ends) + points(f"high_{side}", ends)[::-1]
            parts.append(f'<polygon class="band-{side}" points="{" ".join(band)}"/>')
    for side in "ab":
        line = points(side, [row for row in rows if _is_number(row[side])])
        parts.append(f'<polyline class="{side}" points="{" ".join(line)}"/>')
    for row in rows:
        if row["change"] == "moved":
            parts.append(f'<circle class="moved" cx="{x(row["layer"]):.1f}" cy="{y(row["b"]):.1f}" r="3"/>')
    return "".join(parts)


def _is_number(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _sample(side: str) -> str:
    return f'<svg width="32" height="10" aria-hidden="true"><line class="{side}" x1="1" y1="5" x2="31" y2="5"/></svg>'
