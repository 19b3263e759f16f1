"""The pages Tokens, Weights and Texts in real Chromium, opened as files, used by keyboard and mouse."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains

from reporter.store import Store

pytestmark = pytest.mark.browser

CONCEPTS, POINTS = '[id="figure-sentences.concepts"]', '[id="figure-static.points"]'
READY = "return document.querySelectorAll('[data-part=near][data-side=a] .near tbody td').length"
IDS = "[...document.querySelectorAll('[data-part=near][data-side=a] td.on[data-id]')].map(td => Number(td.dataset.id))"
COLUMN = f"return {IDS}"
CHOSEN = "return document.querySelector('[data-side=a] .word[aria-checked=true]').textContent"
NAMES = '[data-slots="sentences.concepts"] .panel-name'
FIRST = f"return document.querySelector('{NAMES}').textContent === arguments[0]"


def show(tab, reports, address):
    """Open the page, and then what an address asks for."""
    tab.open(reports / "explored" / "tokens.html")
    tab.until(READY)
    tab.run("location.hash = arguments[0]", address)
    script = "const at = location.hash.slice(1).split('&'); return arguments[0].every(one => at.includes(one))"
    tab.until(f"{script} && location.hash.includes('zoom=')", address.split("&"))


def keys(tab, selector, *pressed):
    """Press keys on an element, and after the first wherever the focus then is."""
    for place, key in enumerate(pressed):
        before = tab.run("return location.hash")
        tab.keys(key, on=None if place else selector)
        tab.until("return location.hash !== arguments[0]", before)


def click(tab, selector):
    tab.see(selector)
    tab.browser.find_element("css selector", selector).click()


def address(tab):
    return tab.run("return Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def nearest(reports, at):
    """What the database has for an address."""
    place = {name: at[name] for name in ("journey", "model", "checkpoint", "text", "positions", "measure", "layer")}
    where = " AND ".join(f"{name} = '{value}'" for name, value in (place | {"position": at["token"]}).items())
    site = f"(site = 'attention') = {at['site'] == 'attention'} AND site <> 'final' AND study = 'explored'"
    query = f"SELECT neighbour_id FROM neighbours WHERE {where} AND {site} ORDER BY place"
    return Store(reports / "results.duckdb").frame(query)["neighbour_id"].tolist()


def test_every_choice_changes_the_table_by_keyboard_and_mouse(tab, reports):
    show(tab, reports, "journey=mouse&model=bert&text=1&token=2&layer=4")
    word = "[data-side=a] .word[aria-checked=true]"
    seen = [tab.run(COLUMN)]
    assert tab.run(CHOSEN) == "mouse" and seen[0] == nearest(reports, address(tab))

    def changed(selector, *pressed, **expected):
        keys(tab, selector, *pressed)
        seen.append(tab.run(COLUMN))
        at = address(tab)
        assert seen[-1] == nearest(reports, at) and seen[-1] not in seen[:-1]
        assert expected.items() <= at.items()

    changed(word, *["ARROW_RIGHT"] * 5)
    assert tab.run(CHOSEN) == "cat"
    changed(word, "ARROW_UP", "ARROW_UP", layer="2")
    changed("input[name=measure]:checked", "ARROW_RIGHT")
    keys(tab, "input[name=site]:checked", "ARROW_RIGHT")
    changed("#layer", *["ARROW_RIGHT"] * 3, site="attention", layer="5")
    changed("[data-side=a] .cell.on", "ARROW_UP", "ARROW_LEFT", *["ARROW_UP"] * 4, layer="4")  # over to another token
    assert tab.run(CHOSEN) == "mouse"
    click(tab, "[data-side=a] .chip input[value=gpt2]")
    tab.until("return location.hash.includes('model=gpt2')")
    changed(None, site="path")  # no numbers after attention
    assert tab.run(CHOSEN) == "␣mouse", "the same word"
    tab.assert_quiet()


def test_two_texts_are_compared_and_the_address_keeps_it(tab, reports):
    show(tab, reports, "journey=mouse&model=bert&text=1&token=2&layer=3")
    names = "return [...document.querySelectorAll('[data-side=a] .text-name')].map(name => name.textContent)"
    assert tab.run(names) == ["Text 1", "Text 2"]
    click(tab, ".compare")
    second = "return document.querySelectorAll('[data-part=near][data-side=b] td').length"
    tab.until(second)
    both = "return [...document.querySelectorAll('.slot[data-part=near]')].map(slot => slot.innerText)"
    one, other = tab.run(both)
    assert one != other
    assert (address(tab)["b.text"], address(tab)["b.token"]) == ("2", "2")
    sql = tab.run("return [...document.querySelectorAll('code[data-sql]')].map(code => code.textContent)")
    found = [len(Store(reports / "results.duckdb").frame(one)) for one in sql]
    # two texts of 12 tokens, 8 places, 8 neighbours at each; a point at all of them
    assert found == [2 * 8 * 8, 2 * 12 * 8, 2 * 12 * 8, 2 * 8]
    tab.browser.refresh()
    tab.until(second)
    assert tab.run(both) == [one, other]
    click(tab, "[data-side=b] .chip input[value=gpt2]")
    tab.until("return location.hash.includes('b.model=gpt2')")
    assert tab.run(both)[0] == one and "␣mouse" in tab.run(both)[1], "A stays; B has the same word of its own text"
    assert (address(tab)["b.text"], address(tab)["b.token"]) == ("2", "1")
    tab.assert_quiet()


def test_charts_are_read_and_pressed_and_take_on_what_is_chosen(tab, reports):
    show(tab, reports, "journey=mouse&model=bert&text=1&token=2&layer=4")
    charts = ".line-charts .plot svg.marks, [data-part=path][data-side=a] .plot svg.marks"
    tab.until("return document.querySelectorAll(arguments[0]).length === 6", charts)
    tab.run("document.querySelectorAll(arguments[0]).forEach(svg => { svg.drawnBefore = true; })", charts)

    def point_at(selector, x, y):
        tab.see(selector)
        frame = tab.browser.find_element("css selector", f"{selector} svg.marks .background")
        offset = round((x - 0.5) * frame.size["width"]), round((y - 0.5) * frame.size["height"])
        ActionChains(tab.browser).move_to_element_with_offset(frame, *offset).perform()
        told = "const tip = document.querySelector('#vg-tooltip-element.visible'); return tip && tip.innerText"
        return str(tab.until(told))

    told = point_at(".line-charts .plot", 0.01, 0.5)
    assert all(words in told for words in ("the embedding", "bert", "gpt2")), "anywhere at that layer"
    ActionChains(tab.browser).click().perform()
    tab.until("return location.hash.includes('layer=0')")
    word = point_at("[data-part=path][data-side=a] .plot", 0.2, 0.3).splitlines()[0]
    ActionChains(tab.browser).click().perform()
    tab.until("return arguments[0] === (() => { " + CHOSEN + " })()", word)
    assert tab.run("return [...document.querySelectorAll(arguments[0])].every(svg => svg.drawnBefore)", charts)
    tab.assert_quiet()


def test_hostile_and_long_tokens_are_text_and_do_not_widen_the_page(tab, reports):
    tab.open(reports / "explored" / "tokens.html", width=360)
    tab.until(READY)
    tab.run("location.hash = 'journey=hostile&model=bert&layer=2'")
    tab.until("return document.querySelector('.word[title*=\"(500 characters)\"]')")
    words = tab.texts("[data-side=a] .word")
    assert words[2].startswith("<script>alert(1)") and {"empty", "U+202Eturned", "U+0007bellU+001B"} <= {*words}
    assert tab.run("return document.documentElement.scrollWidth") == 360


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
    others = (
        "return [...document.querySelectorAll('#slot-1 option')].filter(own => !own.disabled).map(own => own.value)"
    )
    assert tab.run(others) == ["", "1", "2"], "no model is compared with itself"
    tab.choose("#slot-0", "1")
    tab.until(f"return document.querySelectorAll('{NAMES}').length === 1")
    assert tab.run(others) == ["", "0", "2"]
    tab.until("return !new URLSearchParams(location.search).has('beside')")
    tab.assert_quiet()
