"""Every kind of figure in light, in dark and on paper: contrast, cut texts and overlapping labels, by geometry."""

import pytest

pytestmark = pytest.mark.browser
PAGES = {"whole/index": "", "whole/layers": "?all=yes", "whole/training": "", "exhibited/weights": ""}
PAGES |= {"exhibited/texts": "", "explored/tokens": ""}
# one figure of each kind of drawing and size of it; others are taken away
FEWER = """
const kinds = new Set();
for (const figure of document.querySelectorAll(".figure:has(.plot)")) {
  const kind = `${figure.querySelector(".plot").className.replace(/ (vega-embed|void)/g, "")} ${figure.className}`;
  if (kinds.has(kind) || !figure.checkVisibility()) figure.remove();
  kinds.add(kind);
}
return kinds.size;
"""
DRAWN = """
const panels = [...document.querySelectorAll(".plot")].filter(plot => plot.checkVisibility());
return panels.every(plot => plot.querySelector("svg, canvas, table") || plot.matches(".void"));
"""
# Text is told from its ground at 4.5:1, a mark and the name of a line in the colour of its mark at 3:1 (WCAG 1.4.3 and
# 1.4.11). What is faint on purpose (bands, grids, models that are not brought out) counts only as ground of text.
MEASURE = """
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const rgb = colour => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = colour => rgb(colour).slice(0, 3).map(value => value / 255)
  .map(value => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
  .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (one, other) => {
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const ground = element => {
  for (let own = element; own; own = own.parentElement) {
    const colour = getComputedStyle(own).backgroundColor;
    if (rgb(colour)[3] === 255) return colour;
  }
  return "white";
};
const shown = element => element.checkVisibility() && Number(element.getAttribute("opacity") ?? 1) > 0.5;
const meets = (a, b, least) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > least
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > least;
// a text in the colour of the ground, with a stroke, lies under the same text
const isHalo = ({ fill, stroke }, surface) => stroke !== "none" && rgb(fill).join() === rgb(surface).join();
const faults = [];
for (const svg of document.querySelectorAll(".figure svg.marks, .figure .plot > svg")) {
  if (!svg.checkVisibility() || svg.closest(".void")) continue;
  const name = svg.closest(".figure").id || svg.closest(".figure").dataset.figure, frame = svg.getBoundingClientRect();
  const surface = ground(svg.parentElement);
  const cells = [...svg.querySelectorAll(":is(.mark-rect, .mark-symbol) path")]
    .map(cell => [cell.getBoundingClientRect(), cell])
    .filter(([box, cell]) => box.width > 9 && rgb(getComputedStyle(cell).fill)[3] > 128);
  const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim() && shown(text)
    && Number(getComputedStyle(text).fillOpacity) > 0.5 && parseFloat(getComputedStyle(text).fontSize) > 0)
    .map(text => [text, text.getBoundingClientRect()])
    .filter(([text]) => !isHalo(getComputedStyle(text), surface));
  for (const [text, box] of texts) {
    const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    const holds = cell => cell.left < x && cell.right > x && cell.top < y && cell.bottom > y;
    const under = cells.filter(([cell]) => holds(cell)).pop()?.[1];
    const on = under ? getComputedStyle(under).fill : surface, colour = getComputedStyle(text).fill;
    const least = text.closest("[class*=role-axis], [class*=role-title]") || under ? 4.5 : 3;
    const found = contrast(colour, on);
    if (found < least) faults.push(`${name}: "${text.textContent}" has ${found.toFixed(2)}:1 (${colour} on ${on})`);
    const beside = Math.max(frame.left - box.left, box.right - frame.right);
    const out = Math.max(beside, frame.top - box.top, box.bottom - frame.bottom);
    if (out > 1.5) faults.push(`${name}: "${text.textContent}" is cut by ${out.toFixed(1)} pixels`);
    if (/…$/.test(text.textContent)) faults.push(`${name}: "${text.textContent}" is cut`);
  }
  const level = texts.filter(([text]) => !/rotate\\((?!-?90|0)/.test(text.getAttribute("transform") ?? ""));
  for (const [i, [text, box]] of level.entries()) for (const [other, its] of level.slice(i + 1))
    if (meets(box, its, 2.5)) faults.push(`${name}: "${text.textContent}" lies over "${other.textContent}"`);
  for (const mark of svg.querySelectorAll(":is(.mark-symbol, .mark-line) path, .mark-line line")) {
    const style = getComputedStyle(mark), line = mark.closest(".mark-line");
    const solid = ink => style[ink] !== "none" && rgb(style[ink])[3] > 128 && Number(style[`${ink}Opacity`]) > 0.5;
    const inks = (line ? ["stroke"] : ["stroke", "fill"]).filter(solid).map(ink => style[ink]);
    if (!shown(mark) || mark.closest("[class*=role-axis]") || !inks.length) continue;
    const found = Math.max(...inks.map(ink => contrast(ink, surface)));
    if (found < 3 && !cells.some(([box, cell]) => cell !== mark && meets(box, mark.getBoundingClientRect(), 1)))
      faults.push(`${name}: a mark in ${inks.join(" and ")} has ${found.toFixed(2)}:1`);
  }
}
for (const text of document.querySelectorAll(".figure :is(h2, h3, .panel-name, .key .entry bdi, .reading, .lead)")) {
  if (!text.checkVisibility()) continue;
  const own = text.closest(".figure").id, style = getComputedStyle(text);
  const out = text.scrollWidth - text.clientWidth;
  if (text.clientWidth && out > 1) faults.push(`${own}: "${text.textContent.trim()}" is cut by ${out} pixels`);
  const found = contrast(style.color, ground(text));
  if (found < 4.5) faults.push(`${own}: "${text.textContent.trim()}" has ${found.toFixed(2)}:1`);
}
return [...new Set(faults)];
"""


def look(tab, script=MEASURE):
    """Return the faults of all figures of the page, which are drawn however far they are from the window."""
    height = tab.run("return Math.min(16000, document.documentElement.scrollHeight + 400)")
    tab.resize(tab.run("return innerWidth"), height)
    tab.until(DRAWN)
    return tab.run(script)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1400, 420])
def test_figures_can_be_read_in_the_light_and_in_the_dark(tab, reports, page, width):
    tab.open(reports / f"{page}.html", width=width, query=PAGES[page])
    if page.endswith("tokens"):
        tab.until("return document.querySelector('.near tbody td')")
    assert tab.run(FEWER) > 0
    assert look(tab) == [], "light"
    tab.prefer(dark=True)
    assert tab.until("return getComputedStyle(document.body).backgroundColor") != "rgb(247, 246, 242)"
    tab.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert look(tab) == [], "dark"


@pytest.mark.parametrize("page", PAGES)
def test_figures_can_be_read_on_paper_and_no_answer_is_closed(tab, reports, page):
    tab.open(reports / f"{page}.html", dark=True, query=PAGES[page])
    tab.until("return document.documentElement.classList.contains('all-data') || !document.querySelector('.panel')")
    assert tab.run(FEWER) > 0
    try:
        tab.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        tab.run("dispatchEvent(new Event('beforeprint'))")
        assert look(tab) == []
        lids = "details:is(.folded-answer, .more):not([open]), .answer details:not([open])"
        assert tab.run(f"return document.querySelectorAll('{lids}').length") == 0
        tab.resize(703, 900)  # as wide as A4 within its margins, with names of usual length
        tab.run("for (const own of document.querySelectorAll('.statistics thead .n')) own.append(' pocket-gpt2-of-2')")
        wide = "[...document.querySelectorAll('.scroll')].filter(own => own.scrollWidth > own.clientWidth + 1)"
        assert tab.run(f"return {wide}.length") == 0, "nothing is cut at the edge of the sheet"
    finally:
        tab.run("dispatchEvent(new Event('afterprint'))")
        tab.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


# the cards of the first row of each row of groups end where the page does
ENDS = """
const rows = new Map(), end = document.querySelector(".groups").getBoundingClientRect().right;
for (const group of document.querySelectorAll(".group")) {
  const cards = [...group.querySelectorAll(".card")].filter(card => card.checkVisibility());
  if (!cards.length) continue;
  const top = Math.round(group.getBoundingClientRect().top), boxes = cards.map(card => card.getBoundingClientRect());
  const own = boxes.filter(box => box.top === boxes[0].top).map(box => box.right);
  rows.set(top, Math.max(rows.get(top) ?? 0, ...own));
}
return [...rows.values()].map(right => Math.abs(end - right)).filter(gap => gap > 2);
"""


@pytest.mark.parametrize("width", [420, 760, 1280, 1400, 2560])
def test_groups_use_the_width_and_every_control_is_within_reach(tab, reports, width):
    for study in ("whole", "made-up"):
        tab.open(reports / study / "layers.html", width=width)
        tab.until("return document.querySelector('.panel svg.marks')")
        assert tab.run(ENDS) == []
        height = tab.run("return document.querySelector('.bar-of-study').offsetHeight")
        tab.click("button.share")
        tab.until("return document.querySelector('button.share').textContent !== 'Share'")
        assert tab.run("return document.querySelector('.bar-of-study').offsetHeight") == height, "nothing jumps"
        if tab.run("return document.querySelector('.show-controls').checkVisibility()"):
            tab.click(".show-controls")
        controls = "[...document.querySelectorAll('.controls > *')].map(own => own.getBoundingClientRect())"
        assert tab.run(f"return {controls}.every(box => box.width && box.left >= 0 && box.right <= innerWidth)")
        assert tab.run("return document.documentElement.scrollWidth <= innerWidth"), "nothing is beside the window"
    tab.open(reports / "index.html", width=width)
    assert (
        tab.run("return Math.max(...[...document.querySelectorAll('.spark svg')].map(own => own.clientWidth))") <= 240
    )
