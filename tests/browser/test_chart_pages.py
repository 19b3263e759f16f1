"""The pages of static embeddings and of sentences in real Chromium, opened as files, used by keyboard and mouse."""

import pytest

pytestmark = pytest.mark.browser

CONCEPTS = '[id="figure-sentences.concepts"]'
POINTS = '[id="figure-static.points"]'
NAMES = '[data-slots="sentences.concepts"] .panel-name'
FIRST = f"return document.querySelector('{NAMES}').textContent === arguments[0]"


def reveal(tab, chart):
    tab.see(chart, "start")
    tab.until("return document.querySelector(arguments[0]).querySelector('canvas, svg.marks, table') !== null", chart)


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


def test_one_slider_moves_every_picture_and_a_second_model_stands_beside_and_the_address_has_it(tab, reports):
    second = f"return document.querySelectorAll('{NAMES}')[1]?.textContent === arguments[0]"
    tab.open(reports / "exhibited" / "texts.html")
    reveal(tab, CONCEPTS)
    assert tab.texts(NAMES) == ["bert · layer 2"]
    tab.until(f"return document.querySelector('{CONCEPTS}').querySelectorAll('svg.marks text').length > 9")
    texts = tab.texts(f"{CONCEPTS} svg.marks text")
    # doctor–nurse against female–male, on both sides, is beyond chance
    assert [texts.count(mark) for mark in ("●", "○", "−0.32")] == [2, 2, 2]
    tab.keys("ARROW_RIGHT", on="#stop")
    tab.until(FIRST, "bert · layer 3")
    tab.keys("END", on="#stop")
    tab.until(FIRST, "bert · after the final norm")
    tab.choose("#slot-1", "1")
    tab.until(second, "gpt2 · step 600 · layer 3")
    tab.click("input[value=attention]")
    tab.until(FIRST, "bert · layer 4")
    assert tab.texts(".broken") == []
    tab.until("return ['beside', 'layer', 'site'].every(name => new URLSearchParams(location.search).has(name))")
    stop, query = tab.texts("#stop-label"), tab.run("return location.search")
    tab.open(reports / "exhibited" / "texts.html", query=query)
    tab.until("return document.getElementById('slot-1').value === '1'")
    assert tab.texts("#stop-label") == stop
    tab.until(f"return document.querySelectorAll('{NAMES}').length === 2")
    tab.assert_quiet()
