import pytest

from reporter.store import Store

pytestmark = pytest.mark.browser

READY = "return document.querySelectorAll('[data-part=near][data-side=a] .near tbody td').length"
COLUMN = (
    "return [...document.querySelectorAll('[data-part=near][data-side=a] td.on[data-id]')]"
    ".map(td => Number(td.dataset.id))"
)
CHOSEN = "return document.querySelector('[data-side=a] .word[aria-checked=true]').textContent"


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
    frame = Store(reports / "results.duckdb").frame(
        f"SELECT neighbour_id FROM neighbours WHERE study = 'explored' AND journey = '{at['journey']}' "
        f"AND model = '{at['model']}' AND checkpoint = '{at['checkpoint']}' AND text = {at['text']} "
        f"AND position = {at['token']} AND positions = '{at['positions']}' AND measure = '{at['measure']}' "
        f"AND layer = {at['layer']} AND (site = 'attention') = {at['site'] == 'attention'} AND site <> 'final' "
        "ORDER BY place"
    )
    return [int(number) for number in frame["neighbour_id"]]


def test_every_choice_changes_the_table_by_keyboard_and_mouse(tab, reports):
    show(tab, reports, "journey=mouse&model=bert&text=0&token=2&layer=4")
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
    show(tab, reports, "journey=mouse&model=bert&text=0&token=2&layer=3")
    click(tab, ".compare")
    tab.until("return document.querySelectorAll('[data-part=near][data-side=b] td').length")
    both = "return [...document.querySelectorAll('.slot[data-part=near]')].map(slot => slot.innerText)"
    one, other = tab.run(both)
    assert one != other
    assert (address(tab)["b.text"], address(tab)["b.token"]) == ("1", "2")
    sql = tab.run("return [...document.querySelectorAll('code[data-sql]')].map(code => code.textContent)")
    found = [len(Store(reports / "results.duckdb").frame(one)) for one in sql]
    # two texts of 12 tokens, 8 places, 8 neighbours at each; a point at all of them
    assert found == [2 * 8 * 8, 2 * 12 * 8, 2 * 12 * 8, 2 * 8]
    tab.browser.refresh()
    tab.until("return document.querySelectorAll('[data-part=near][data-side=b] td').length")
    assert tab.run(both) == [one, other]
    click(tab, "[data-side=b] .chip input[value=gpt2]")
    tab.until("return location.hash.includes('b.model=gpt2')")
    assert tab.run(both)[0] == one and "␣mouse" in tab.run(both)[1], "A stays; B has the same word of its own text"
    assert (address(tab)["b.text"], address(tab)["b.token"]) == ("1", "1")
    tab.assert_quiet()


def test_charts_are_read_and_pressed_and_take_on_what_is_chosen(tab, reports):
    from selenium.webdriver.common.action_chains import ActionChains

    show(tab, reports, "journey=mouse&model=bert&text=0&token=2&layer=4")
    charts = ".line-charts .plot svg.marks, [data-part=path][data-side=a] .plot svg.marks"
    tab.until("return document.querySelectorAll(arguments[0]).length === 6", charts)
    tab.run("document.querySelectorAll(arguments[0]).forEach(svg => { svg.drawnBefore = true; })", charts)
    seen = []

    def point_at(selector, x: float, y: float):
        tab.see(selector)
        frame = tab.browser.find_element("css selector", f"{selector} svg.marks .background")
        offset = ((x - 0.5) * frame.size["width"], (y - 0.5) * frame.size["height"])
        ActionChains(tab.browser).move_to_element_with_offset(frame, *map(round, offset)).perform()
        told = "const tip = document.querySelector('#vg-tooltip-element.visible'); return tip && tip.innerText"
        seen.append(tab.until(told))
        return str(seen[-1])

    assert "the embedding" in point_at(".line-charts .plot", 0.01, 0.5), "anywhere at that layer"
    assert all(model in seen[-1] for model in ("bert", "gpt2"))
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
