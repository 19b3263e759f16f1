"""The pages of static embeddings and of sentences in real Chromium, opened as files, used by keyboard and mouse."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser

# every chart in the window has drawn what it shows, or says that there is nothing
DRAWN = """
const full = pane => pane.querySelector("svg.marks, canvas, table") || pane.querySelector(".plot.void");
const seen = [...document.querySelectorAll(".of-chapter")].filter(chart => {
  const box = chart.getBoundingClientRect();
  return box.top < innerHeight && box.bottom > 0;
});
return seen.every(chart => chart.querySelector(".panel") && [...chart.querySelectorAll(".panel")].every(full));
"""
CHART = "document.getElementById('figure-{}')"
NAMES = (
    "return [...document.querySelectorAll('[data-slots=\"sentences.concepts\"] .panel-name')].map(n => n.textContent)"
)


def show(tab, page, **window):
    """Open a page, and scroll until everything on it has been drawn."""
    tab.open(page, **window)
    top = 0
    while top < tab.run("return document.documentElement.scrollHeight"):
        tab.run("scrollTo({top: arguments[0], behavior: 'instant'})", top)
        tab.until(DRAWN)
        top += 800


def reveal(tab, chart):
    tab.run(f"{CHART.format(chart)}.scrollIntoView({{block: 'start', behavior: 'instant'}})")
    tab.until(f"return {CHART.format(chart)}.querySelector('canvas, svg.marks, table') !== null")


def press(tab, selector, *keys):
    from selenium.webdriver.common.keys import Keys

    tab.run("document.querySelector(arguments[0]).focus()", selector)
    for key in keys:
        tab.browser.switch_to.active_element.send_keys(getattr(Keys, key, key))


@pytest.mark.parametrize("name", ["vocabulary", "sentences"])
def test_a_page_draws_without_network_or_complaint_and_its_tokens_are_text(tab, reports, name):
    show(tab, reports / "exhibited" / f"{name}.html", width=420, dark=True)
    assert tab.run("return document.querySelectorAll('.broken').length") == 0
    assert tab.run("return document.documentElement.scrollWidth") <= 420
    assert tab.run("return document.querySelectorAll('main script, main img').length") == 0
    assert tab.complaints() == []
    assert tab.requests() == []


def test_a_token_is_searched_marked_and_read_off_by_keyboard(tab, reports):
    tab.open(reports / "exhibited" / "vocabulary.html")
    reveal(tab, "static.points")
    press(tab, '[id="figure-static.points"] input[type=search]', "<script>")
    told = "return document.querySelector('[id=\"figure-static.points\"] .told').textContent"
    assert tab.run(told).startswith("1 marked: <script>alert(1)")
    press(tab, '[id="figure-static.points"] input[type=search]', "nowhere")
    assert "token LIKE '%<script>nowhere%'" in tab.run(told)
    canvas = '[id="figure-static.points"] canvas'
    press(tab, canvas, "ARROW_RIGHT")
    first = tab.run(told)
    assert " at " in first
    press(tab, canvas, "ARROW_LEFT")
    assert tab.run(told) != first


def test_one_slider_moves_every_picture_and_a_second_model_stands_beside(tab, reports):
    tab.open(reports / "exhibited" / "sentences.html")
    reveal(tab, "sentences.concepts")
    assert tab.run(NAMES) == ["bert · layer 2"]
    press(tab, "#stop", "ARROW_RIGHT")
    tab.until(NAMES.replace("return", "return (") + ")[0] === 'bert · layer 3'")
    press(tab, "#stop", "END")
    tab.until(NAMES.replace("return", "return (") + ")[0] === 'bert · after the final norm'")
    tab.run("const s = document.getElementById('slot-1'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    tab.until(NAMES.replace("return", "return (") + ").length === 2")
    assert tab.run(NAMES)[1] == "gpt2 · step 600 · layer 3"
    tab.run("document.querySelector('input[value=attention]').click()")
    tab.until(NAMES.replace("return", "return (") + ")[0] === 'bert · layer 4'")
    assert tab.run("return document.querySelectorAll('.broken').length") == 0


def test_the_heat_map_marks_what_is_beyond_chance(tab, reports):
    tab.open(reports / "exhibited" / "sentences.html")
    reveal(tab, "sentences.concepts")
    marks = (
        f"return [...{CHART.format('sentences.concepts')}.querySelectorAll('svg.marks text')]"
        ".map(t => t.textContent).filter(t => t === '{}').length"
    )
    tab.until(marks.format("●") + " === 2")  # doctor–nurse against female–male, on both sides
    assert tab.run(marks.format("○")) == 2
    assert tab.run(marks.format("−0.32")) == 2


def test_what_is_chosen_is_in_the_address(tab, reports):
    page = reports / "exhibited" / "sentences.html"
    tab.open(page)
    tab.run("const s = document.getElementById('slot-1'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    tab.run("const s = document.getElementById('stop'); s.value = 0; s.dispatchEvent(new Event('input'))")
    tab.until("return ['beside', 'layer'].every(name => new URLSearchParams(location.search).has(name))")
    named = "return document.getElementById('stop-label').textContent"
    stop = tab.run(named)
    tab.open(page, query=tab.run("return location.search"))
    tab.until("return document.getElementById('slot-1').value === '1'")
    assert tab.run(named) == stop
    tab.until("return document.querySelectorAll('[data-slots=\"sentences.concepts\"] .panel').length === 2")
    assert tab.complaints() == []
