"""The pages of static embeddings and of sentences in real Chromium, opened as files, used by keyboard and mouse."""

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
CONCEPTS = '[id="figure-sentences.concepts"]'
POINTS = '[id="figure-static.points"]'
NAMES = '[data-slots="sentences.concepts"] .panel-name'
FIRST = f"return document.querySelector('{NAMES}').textContent === arguments[0]"


@pytest.fixture
def sentences(tab, reports):
    """The page of sentences, whose heat map of concepts is drawn."""
    tab.open(reports / "exhibited" / "texts.html")
    reveal(tab, CONCEPTS)
    return tab


def reveal(tab, chart):
    tab.see(chart, "start")
    tab.until("return document.querySelector(arguments[0]).querySelector('canvas, svg.marks, table') !== null", chart)


@pytest.mark.parametrize("name", ["weights", "texts"])
def test_a_page_draws_without_network_or_complaint_and_its_tokens_are_text(tab, reports, name):
    tab.open(reports / "exhibited" / f"{name}.html", width=420, dark=True)
    tab.scroll(DRAWN, 800)
    assert tab.run("return document.querySelectorAll('.broken').length") == 0
    assert tab.run("return document.documentElement.scrollWidth") <= 420
    assert tab.run("return document.querySelectorAll('main script, main img').length") == 0
    tab.assert_quiet()


def test_a_token_is_searched_marked_and_read_off_by_keyboard(tab, reports):
    tab.open(reports / "exhibited" / "weights.html")
    reveal(tab, POINTS)
    tab.keys("<script>", on=f"{POINTS} input[type=search]")
    assert tab.texts(f"{POINTS} .told")[0].startswith("1 marked: <script>alert(1)")
    tab.keys("nowhere", on=f"{POINTS} input[type=search]")
    assert "token LIKE '%<script>nowhere%'" in tab.texts(f"{POINTS} .told")[0]
    tab.keys("ARROW_RIGHT", on=f"{POINTS} canvas")
    first = tab.texts(f"{POINTS} .told")
    assert " at " in first[0]
    tab.keys("ARROW_LEFT", on=f"{POINTS} canvas")
    assert tab.texts(f"{POINTS} .told") != first


def test_one_slider_moves_every_picture_and_a_second_model_stands_beside_and_the_address_has_it(sentences, reports):
    second = f"return document.querySelectorAll('{NAMES}')[1]?.textContent === arguments[0]"
    assert sentences.texts(NAMES) == ["bert · layer 2"]
    sentences.keys("ARROW_RIGHT", on="#stop")
    sentences.until(FIRST, "bert · layer 3")
    sentences.keys("END", on="#stop")
    sentences.until(FIRST, "bert · after the final norm")
    sentences.choose("#slot-1", "1")
    sentences.until(second, "gpt2 · step 600 · layer 3")
    sentences.click("input[value=attention]")
    sentences.until(FIRST, "bert · layer 4")
    assert sentences.texts(".broken") == []
    sentences.until("return ['beside', 'layer', 'site'].every(name => new URLSearchParams(location.search).has(name))")
    stop, query = sentences.texts("#stop-label"), sentences.run("return location.search")
    sentences.open(reports / "exhibited" / "texts.html", query=query)
    sentences.until("return document.getElementById('slot-1').value === '1'")
    assert sentences.texts("#stop-label") == stop
    sentences.until(f"return document.querySelectorAll('{NAMES}').length === 2")
    sentences.assert_quiet()


def test_the_heat_map_marks_what_is_beyond_chance(sentences):
    sentences.until(f"return document.querySelector('{CONCEPTS}').querySelectorAll('svg.marks text').length > 9")
    texts = sentences.texts(f"{CONCEPTS} svg.marks text")
    # doctor–nurse against female–male, on both sides
    assert [texts.count(mark) for mark in ("●", "○", "−0.32")] == [2, 2, 2]
