"""A whole figure as one SVG: title, legend, panels with their sentences, and a caption.

Everything is laid out in the pixels of the pages, where a label is 11 high, and scaled as a whole to the width in
millimetres and the font size that were asked for: lines and marks keep their proportion to the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from reporter.charts.still import FONTS, Still, writable
from reporter.charts.styles import FLOOR_GREY, GREEN, GREY, INK, RAMP, THEMES, ModelStyle

LABEL = 11.0
"""Height of the charts' labels in pixels: what the font size is that of."""
PX_PER_MM, PX_PER_PT = 96 / 25.4, 96 / 72
GAP = 18.0
NARROWEST = 210.0
"""A panel in a row of several is at least so wide."""
SIMILARITY = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725")
COSINES = ("#14509e", "#86add9", "#f3f2ed", "#eda673", "#ad3a06")
RAMPS = {
    "depth": ("depth 0", tuple(RAMP), "1, a line is a layer"),
    "cuts": ("smallest cut", tuple(RAMP), "largest, a line is a cut"),
    "similarity": ("0", SIMILARITY, "1; the first model upwards, the second to the right"),
    "angle": ("½", SIMILARITY, "0: the angle over π before and after the run; ½ is what unrelated states have"),
    "attention": ("0", SIMILARITY, "1, the mean attention weight on the first token"),
    "cosine": ("cosine −1", COSINES, "1"),
}
"""Legends of a scale of colours: what stands before it, its colours, what stands behind it."""
KEYS = {
    "shares": (("between types", GREEN), ("within types", GREY)),
    "methods": (("Pearson", FLOOR_GREY), ("Spearman", INK)),
}
MARKS = {
    "circle": '<circle cx="16" cy="7" r="4"/>',
    "square": '<rect x="12.4" y="3.4" width="7.2" height="7.2"/>',
    "cross": '<path d="M14.4 2.6h3.2v2.8h2.8v3.2h-2.8v2.8h-3.2v-2.8h-2.8v-3.2h2.8z"/>',
    "diamond": '<path d="M16 1.8l4 5.2-4 5.2-4-5.2z"/>',
    "triangle-up": '<path d="M16 2.4l4.8 8.4h-9.6z"/>',
    "triangle-down": '<path d="M16 11.6l4.8-8.4h-9.6z"/>',
}
_OTHER_MARK = '<path d="M20.6 7l-8.4 4.6v-9.2z"/>'
# Widths of DejaVu Sans, the widest of ``FONTS``, in thousandths of the font size, rounded up to a few classes: a line
# must end inside the figure whichever of them a reader has. What is not Latin is a full square.
_WIDTHS = {
    **dict.fromkeys("ijl|'.,:; I/\\", 340),
    **dict.fromkeys('ft()[]r-!"`', 410),
    **dict.fromkeys("mMWw@%—", 1000),
}
_INK, _QUIET = THEMES["light"]["text"]["color"], THEMES["light"]["axis"]["labelColor"]


@dataclass(frozen=True)
class Size:
    """How large a figure is.

    Args:
        width: in millimetres.
        font: size of its labels in points.
    """

    width: float
    font: float

    @property
    def scale(self) -> float:
        """Pixels (96 to the inch) of the picture for each pixel of the layout."""
        return self.font * PX_PER_PT / LABEL

    @property
    def pixels(self) -> float:
        """Width in pixels of the layout."""
        return self.width * PX_PER_MM / self.scale

    def columns(self, panels: int) -> int:
        """How many panels stand beside each other."""
        most = max(1, int((self.pixels + GAP) // (NARROWEST + GAP)))
        if panels <= most:
            return max(1, panels)
        return -(-panels // -(-panels // most))  # rows of nearly the same length

    def panel(self, panels: int) -> float:
        """Width of a panel in pixels of the layout."""
        columns = self.columns(panels)
        return (self.pixels - (columns - 1) * GAP) / columns


@dataclass(frozen=True)
class PanelStill:
    """A panel: its heading, its drawing, and what is said under it."""

    label: str
    drawing: Still
    says: str = ""


@dataclass(frozen=True)
class Sheet:
    """What stands in a figure.

    Args:
        title: over everything; empty for none.
        panels: what is drawn.
        models: the models of its legend.
        legend: which scale or key stands there, see ``Chart.legend``.
        key: what else is told apart by colour.
        caption: under everything, one paragraph for each; none for none.
    """

    title: str
    panels: Sequence[PanelStill]
    models: Sequence[ModelStyle] = ()
    legend: str = ""
    key: Sequence[tuple[str, str]] = ()
    caption: Sequence[str] = ()


def sheet_svg(sheet: Sheet, size: Size) -> str:
    """Lay a figure out.

    Args:
        sheet: what stands in it; its panels are as wide as ``size.panel`` says.
        size: how large it is.

    Returns:
        An SVG whose width and height are in millimetres.
    """
    made = _Page(size.pixels)
    if sheet.title:
        made.text(sheet.title, 13.5, weight=600)
        made.y += 5
    made.flow([_model(style) for style in sheet.models])
    if sheet.legend in RAMPS:
        made.flow([_ramp(*RAMPS[sheet.legend])])
    made.flow([_colour(name, colour) for name, colour in (*KEYS.get(sheet.legend, ()), *sheet.key)])
    columns, width = size.columns(len(sheet.panels)), size.panel(len(sheet.panels))
    for start in range(0, len(sheet.panels), columns):
        made.row(sheet.panels[start : start + columns], width)
    for paragraph in sheet.caption:
        made.y += 3
        made.text(paragraph, 10, colour=_QUIET)
    height = made.y + 2
    millimetres = height * size.scale / PX_PER_MM
    background = THEMES["light"]["background"]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{size.width:g}mm" height="{millimetres:.2f}mm" viewBox="0 0 {size.pixels:.2f} {height:.2f}" '
        f'font-family="{escape(FONTS)}">'
        f'<rect width="100%" height="100%" fill="{background}"/>{"".join(made.parts)}</svg>\n'
    )


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is in the widest font, rather too wide than too narrow."""
    return size / 1000 * sum(map(_letter_width, text))


def wrap(text: str, size: float, width: float) -> list[str]:
    """Break a text into lines; a word that is too long for a line is broken where it must be."""
    lines: list[str] = []
    line = ""
    for word in writable(text).split():
        if line and text_width(f"{line} {word}", size) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
        while text_width(line, size) > width and len(line) > 1:
            cut = next((n for n in range(len(line) - 1, 0, -1) if text_width(line[:n], size) <= width), 1)
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line] if line else lines


def _letter_width(letter: str) -> int:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if ord(letter) > 0x2E7F:
        return 1000
    return 770 if letter.isupper() else 640


class _Page:
    """What was set so far, and how far down it reaches."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.y = 2.0
        self.parts: list[str] = []

    def text(
        self, text: str, size: float, weight: int = 400, colour: str = _INK, x: float = 0, width: float | None = None
    ) -> None:
        for line in wrap(text, size, self.width if width is None else width):
            self.y += size * 1.3
            self.parts.append(_line(line, x, self.y - size * 0.3, size, weight, colour))

    def flow(self, entries: Sequence[tuple[str, float]]) -> None:
        """Set entries of a legend beside each other, and on further lines where they do not fit."""
        if not entries:
            return
        x = 0.0
        for body, width in entries:
            if x and x + width > self.width:
                x, self.y = 0.0, self.y + 17
            self.parts.append(f'<g transform="translate({x:.2f},{self.y:.2f})">{body}</g>')
            x += width + 12
        self.y += 20

    def row(self, panels: Sequence[PanelStill], width: float) -> None:
        top, bottom = self.y + 4, self.y
        for place, panel in enumerate(panels):
            x, self.y = place * (width + GAP), top
            if panel.label:
                self.text(panel.label, LABEL, weight=600, x=x, width=width)
                self.y += 3
            shown = min(1.0, width / panel.drawing.width)
            transform = f"translate({x:.2f},{self.y:.2f}) scale({shown:.5f})"
            self.parts.append(f'<g transform="{transform}">{panel.drawing.body}</g>')
            self.y += panel.drawing.height * shown
            for sentence in panel.says.split(" · ") if panel.says else ():
                self.text(sentence, 10, colour=_QUIET, x=x, width=width)
            bottom = max(bottom, self.y)
        self.y = bottom + 8


def _line(text: str, x: float, y: float, size: float, weight: int = 400, colour: str = _INK) -> str:
    bold = f' font-weight="{weight}"' if weight != 400 else ""
    text = escape(writable(text))
    return f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:g}" fill="{colour}"{bold}>{text}</text>'


def _model(style: ModelStyle) -> tuple[str, float]:
    dashes = " ".join(f"{part:g}" for part in style.dash)
    dash = f' stroke-dasharray="{dashes}"' if style.dash[1] else ""
    width = 1.3 if style.baseline else 2
    mark = "" if style.baseline else f'<g fill="{style.light}">{MARKS.get(style.shape, _OTHER_MARK)}</g>'
    line = f'<line x1="1" y1="7" x2="31" y2="7" stroke="{style.light}" stroke-width="{width}"{dash}/>'
    return line + mark + _line(style.model, 36, 10.8, LABEL), 36 + text_width(style.model, LABEL)


def _colour(name: str, colour: str) -> tuple[str, float]:
    square = f'<rect x="0" y="2" width="10" height="10" rx="2" fill="{escape(colour)}"/>'
    return square + _line(name, 15, 10.8, LABEL), 15 + text_width(name, LABEL)


def _ramp(before: str, colours: Sequence[str], behind: str) -> tuple[str, float]:
    start, length = text_width(before, LABEL) + 4, 100.0
    name = f"ramp-{colours[0].lstrip('#')}"
    stops = "".join(
        f'<stop offset="{place / (len(colours) - 1):.3f}" stop-color="{colour}"/>'
        for place, colour in enumerate(colours)
    )
    strip = (
        f'<defs><linearGradient id="{name}">{stops}</linearGradient></defs>'
        f'<rect x="{start:.2f}" y="3" width="{length}" height="8" rx="2" fill="url(#{name})"/>'
    )
    end = start + length + 5
    return _line(before, 0, 10.8, LABEL) + strip + _line(behind, end, 10.8, LABEL), end + text_width(behind, LABEL)
