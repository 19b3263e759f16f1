"""The pages of a study in real Chromium, opened as files: charts, controls, tables, claims, themes and widths."""

import time
from xml.etree import ElementTree

import pytest
from browser.conftest import NEAR
from report.made_up import IMAGE

from reporter.store import Store

pytestmark = pytest.mark.browser
FIGURE = '.panel[data-chart="anisotropy.top_variance_share"][data-corpus="nested"]'
ITS = '[id="figure-anisotropy.top_variance_share"]'
# every panel near the window has drawn marks
MARKED = 'near.every(panel => panel.querySelector("svg.marks [class*=mark-] path[aria-label]"))'
DRAWN = f"{NEAR} return (near.length || arguments[0]) && {MARKED};"
OUTSIDE = """
return [...document.querySelectorAll("#claims *")].filter(e => !e.closest(".scroll > table") && !e.closest("pre") &&
  e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80));
"""


@pytest.fixture
def page(tab, reports):
    """The page *Layers* of a study with a hostile name and failures, at its first charts, which are drawn."""
    tab.open(reports / "made-up" / "layers.html")
    see_charts(tab)
    return tab


@pytest.fixture
def whole(tab, reports):
    """The page *Layers* of a study that has every table."""
    tab.open(reports / "whole" / "layers.html", query="?all=yes")
    return tab


def see_charts(tab):
    tab.see(FIGURE)
    tab.until(DRAWN)


def labels_in(selector):
    marks = f"[...document.querySelectorAll('{selector} :is(.mark-symbol, .mark-rect) path[aria-label]')]"
    return f"{marks}.map(mark => mark.ariaLabel)"


def marks(tab, selector=FIGURE):
    """What the marks of a panel say to a screen reader, model, depth and value of each, once there are any."""
    tab.see(selector)
    return tab.until(f"const labels = {labels_in(selector)}; return labels.length && labels")


def change(tab, action, *arguments, of=FIGURE):
    """Do something, and return the marks of a panel once they are others."""
    before = marks(tab, of)
    action(*arguments)
    tab.until(f"return {labels_in(of)}.join() !== arguments[0]", ",".join(before))
    return marks(tab, of)


def panel(figure, value):
    return f'.panel[data-chart="{figure}"][data-value="{value}"]'


def count_of(reports, study, where):
    sql = "SELECT count(*) AS n FROM layer_metrics WHERE statistic = 'top_variance_share' AND corpus = 'nested' "
    more = f"AND checkpoint IN ('final', 'step600') AND view = 'text tokens' AND study = '{study}' AND {where}"
    return Store(reports / "results.duckdb").frame(sql + more)["n"].item()


def test_every_chart_draws_from_a_file_without_network_or_complaint(tab, reports):
    tab.open(reports / "index.html")
    tab.click(".study h2 a[href^=made-up]")
    tab.until("return location.pathname.endsWith('/made-up/index.html') && document.querySelector('h1') !== null")
    for name in ("index", "training", "layers"):
        tab.open(reports / "made-up" / f"{name}.html", query="?all=yes&corpus=all")
        # what is far from the window is taken down again; panels are drawn from 500 above it to 500 below
        seen = "for (const p of document.querySelectorAll('.panel:has(.mark-symbol path)')) p.dataset.seen = 'yes';"
        tab.scroll(1600, f"const drawn = (() => {{ {DRAWN} }})(); {seen} return drawn", "none may be near")
        left = "[...document.querySelectorAll('.panel:not([data-seen])')].filter(p => p.checkVisibility())"
        assert tab.run(f"return {left}.map(p => p.dataset.chart)") == tab.texts(".broken") == []
        tab.assert_quiet()


def test_the_drawn_points_and_the_table_behind_them_are_the_numbers_and_follow_the_controls(page, reports):
    points = 7 + 5 + 7 + 9
    assert len(marks(page)) == count_of(reports, "made-up", "true") == points
    numbers = Store(reports / "results.duckdb").frame(
        "SELECT view, value FROM layer_metrics WHERE study = 'made-up' AND metric = 'anisotropy' AND checkpoint IN "
        "('final', 'step600') AND statistic IN ('top_variance_share', 'top_variance_share_floor')"
    )
    values = numbers.groupby("view")["value"]
    page.click(f"{ITS} .fill")
    page.click(f"{ITS} details.behind summary")
    rows = f"[...document.querySelectorAll('{ITS} details.behind tbody tr')]"
    assert page.until(f"return {rows}.length") == values.size()["text tokens"]
    head = page.texts(f"{ITS} details.behind th")
    assert {"corpus", "model", "layer", "value"} <= set(head) and "view" not in head, "all rows have the same"
    cells = f"{rows}.map(row => row.cells[{head.index('value')}].textContent)"
    assert page.run(f"return {cells}.some(text => /^[\\d.]+ \\[[\\d.]+, [\\d.]+\\]$/.test(text))"), "with its interval"
    largest = f"return Math.abs(Math.max(...{cells}.map(parseFloat)) / arguments[0] - 1) < 0.02"
    assert page.run(largest, float(values.max()["text tokens"]))
    before = page.texts(f"{FIGURE} .reading")
    change(page, page.click, "input[value='without sinks']")
    page.until(largest, float(values.max()["without sinks"]))
    (after,) = page.texts(f"{FIGURE} .reading")
    label = page.run(f"return document.querySelector('{FIGURE} [role=graphics-document]').ariaLabel")
    assert [after] != before and after[:20] in label, "what is said to a screen reader follows"
    at_start = change(page, page.choose, "#moment", 0, "input")
    assert page.texts("#moment-label") == ["step 0"]
    assert len(at_start) == points, "models with one checkpoint stay"
    page.click("button.play")
    ended = "document.getElementById('moment-label').textContent.startsWith('last')"
    page.until(f"return {ended} && document.querySelector('button.play').textContent.includes('▶')")
    assert marks(page) != at_start
    page.assert_quiet()


def test_everything_is_reached_with_the_keyboard_and_a_name_in_the_legend_brings_its_model_out(page):
    points = f"[...document.querySelectorAll('{FIGURE} .mark-symbol path')]"
    faint = f"return {points}.filter(mark => Number(mark.getAttribute('opacity')) < .5).length === arguments[0]"
    page.click("button.model[data-model=bert]")
    page.until(faint, 21)
    assert page.run("return document.querySelector('[data-model=bert]').ariaPressed") == "true"
    page.click("button.role-name[data-role=decoder]")
    page.until(faint, 12)
    page.run("dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    page.until(faint, 0)
    page.keys("ARROW_RIGHT", on="input[name=view]:checked")
    page.until("return document.querySelector('input[value=\"with special tokens\"]').checked")
    page.keys("TAB", "TAB", "TAB", "TAB")
    assert page.run("return document.activeElement.id") == "moment"
    page.keys("ARROW_LEFT")
    page.until("return document.getElementById('moment-label').textContent === 'step 200'")


def test_a_layer_can_be_followed_over_training(tab, reports):
    tab.open(reports / "made-up" / "training.html")
    chart = '[data-chart="intrinsic_dimension.twonn.training"]'
    inside = f'.panel{chart}[data-corpus="nested"]'
    assert len(marks(tab, inside)) == 8
    assert len(change(tab, tab.choose, f"select{chart}", "0", of=inside)) == 4, "the encoder has no value at layer 0"


def test_the_theme_follows_the_system_and_can_be_switched(tab, reports):
    def seen():
        paper = tab.run("return getComputedStyle(document.body).backgroundColor")
        return tab.texts(".theme-name")[0], paper, tab.run(stroke)

    stroke = f"return document.querySelector('{FIGURE} .mark-symbol path').getAttribute('fill')"
    tab.open(reports / "made-up" / "layers.html", dark=True)
    see_charts(tab)
    themes = [seen()]
    for _ in range(2):
        tab.click("button.theme")
        tab.until(f"{stroke} !== arguments[0]", themes[-1][2])
        themes.append(seen())
    tab.browser.refresh()
    see_charts(tab)
    assert seen() == themes[2], "the choice is remembered"
    assert [name for name, *_ in themes] == ["System", "Light", "Dark"]
    assert themes[2][1:] == themes[0][1:] and themes[1][1] != themes[0][1]
    tab.click("button.theme")
    assert seen() == themes[0]
    tab.assert_quiet()


def test_on_a_phone_the_body_never_scrolls_sideways_failures_are_seen_first_and_controls_stay_in_sight(tab, reports):
    studies = ("index", "made-up/index", "made-up/layers", "whole/claims", "whole/layers", "whole/method")
    for name in (*studies, "exhibited/weights", "exhibited/texts"):
        tab.open(reports / f"{name}.html", width=360, height=800)
        if name == "made-up/index":
            box = tab.run("return document.querySelector('section.alarm').getBoundingClientRect().toJSON()")
            assert 0 < box["top"] < 500 and "give another path" in tab.texts("section.alarm")[0]
            tab.see("#glance", "start")
            tab.until(DRAWN)
        tab.run("for (const lid of document.querySelectorAll('main details')) lid.open = true")
        tables = "return [...document.querySelectorAll('.behind .scroll')].every(t => t.clientWidth <= innerWidth)"
        assert tab.run(tables), name
        if name == "made-up/layers":
            tab.run("scrollTo({top: 3000, behavior: 'instant'})")
            for selector in (".pages a[aria-current]", "input[name=view]"):
                top = tab.run("return document.querySelector(arguments[0]).getBoundingClientRect().top", selector)
                assert 0 <= top < 300, selector
        if name == "whole/claims":
            assert tab.run(OUTSIDE) == []
        if name == "whole/layers":
            for figure in ("variance.types", "layer_pairs.pairs", "convergence.correlations"):
                tab.see(f'[id="figure-{figure}"]', "start")
                tab.until("return document.querySelector(arguments[0])", f'[id="figure-{figure}"] svg.marks')
        if name.startswith("exhibited"):
            tab.scroll(800)
            assert tab.texts(".broken") == tab.texts("main script, main img") == [], "a token is text"
        assert tab.run("return document.documentElement.scrollWidth") <= 360, name
        assert tab.run("return [...document.querySelectorAll('svg.marks')].every(svg => svg.clientWidth > 120)")
    tab.assert_quiet()


def test_charts_follow_the_width_of_the_window_and_those_far_from_it_come_back_without_a_jump(page):
    width = f"document.querySelector('{FIGURE} svg.marks').getBoundingClientRect().width"
    before = page.run(f"return {width}")
    page.resize(480, 900)
    page.until(f"return Math.abs({width} - arguments[0]) > 20", before)
    height = page.run("return document.querySelector('.group').offsetHeight")
    page.run("document.body.style.paddingBottom = '4000px'; scrollTo({top: 99999, behavior: 'instant'})")
    page.until(f"return document.querySelectorAll('{FIGURE} svg.marks').length === 0")
    assert page.run("return document.querySelector('.group').offsetHeight") == pytest.approx(height, abs=2)
    see_charts(page)
    page.assert_quiet()


def test_without_scripts_the_numbers_are_still_there(tab, reports):
    tab.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        tab.browser.get((reports / "made-up" / "layers.html").as_uri())
        time.sleep(0.2)
        text = tab.browser.find_element("tag name", "body").text
    finally:
        tab.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    words = ("The charts need JavaScript", "Data as CSV", "Definition", "reporter export --site", "its numbers as CSV")
    assert not [one for one in words if one not in text]


def test_a_whole_figure_is_saved_as_it_is_seen(page):
    page.click(f"{ITS} .fill")
    page.until(DRAWN)
    page.run(f"""
      const make = URL.createObjectURL, keep = text => {{ window.saved = text; }};
      URL.createObjectURL = blob => {{ blob.text().then(keep); return make.call(URL, blob); }};
      [...document.querySelectorAll('{ITS} .exports button')].find(one => one.textContent === "SVG").click()""")
    root = ElementTree.fromstring(page.until("return window.saved"))
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert root.get("width") == "170mm" and IMAGE in texts, "the legend is text"
    assert all(
        any(text.startswith(said) for text in texts) for said in ("Variance explained by", "Tokens: text tokens")
    )
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_tables_appear_when_their_lids_are_open(tab, reports):
    tab.open(reports / "made-up" / "method.html")
    tab.until("return document.querySelectorAll('#cells > ul > li').length")  # what failed is said beside the table
    assert not tab.run("return document.querySelector('#cells > details table tr.failed')")
    tab.click("#cells > details > summary")
    tab.until("return document.querySelector('#cells tbody tr.failed')")
    tab.open(reports / "made-up" / "index.html")
    other = "#compared > details[data-table-of=simple]"
    assert tab.texts(f"{other} table") == [], "a large table is no elements until somebody wants it"
    tab.click(f"{other} > summary")
    tab.until(f"return document.querySelector('{other} table')?.checkVisibility()")
    tab.assert_quiet()


def test_sentences_and_tables_are_about_the_chosen_corpus(tab, reports):
    shown = "[...document.querySelectorAll('[data-of-corpus]')].filter(own => own.checkVisibility())"
    lids = "[...document.querySelectorAll('[data-table-of]')].filter(own => own.open)"
    said = f"return [{shown}.map(own => own.dataset.ofCorpus), {lids}.map(own => own.dataset.tableOf)]"
    tab.open(reports / "made-up" / "index.html")
    assert tab.until(said) == [["nested"], ["nested"]]
    tab.choose("#corpus", "simple")
    assert tab.run(said) == [["simple"], ["simple"]]
    assert tab.run(f"return {shown}[0].textContent.includes('on simple')")
    tab.choose("#corpus", "")
    assert tab.run(said) == [["nested", "simple"]] * 2
    tab.open(reports / "made-up" / "index.html", query="?corpus=simple")
    assert tab.until(said) == [["simple"], ["simple"]]
    tab.assert_quiet()


def test_evidence_opens_by_keyboard_and_its_sql_is_copied(tab, reports):
    tab.open(reports / "whole" / "claims.html")
    lid = "#claim-bert-rate details:has(.copy)"
    tab.browser.find_element("tag name", "body").send_keys("\ue004")  # the Tab key: whoever uses keys sees the focus
    tab.run("document.querySelector(arguments[0]).focus()", f"{lid} summary")
    assert tab.run(f"return getComputedStyle(document.querySelector('{lid} summary')).outlineStyle") == "solid"
    tab.keys("ENTER")
    tab.until(f"return document.querySelector('{lid}').open")
    tab.keys("ENTER", on=f"{lid} .copy")
    tab.until(f"return /Copied|Selected/.test(document.querySelector('{lid} .copy').textContent)")
    tab.run("location.hash = 'claim-frequent-first'")
    tab.until("return document.querySelector('#claim-frequent-first').getBoundingClientRect().top < innerHeight")
    tab.assert_quiet()


def test_profiles_switch_to_the_states_after_attention_and_null_baselines_are_hidden_everywhere(whole, reports):
    before = marks(whole)
    hollow = f"return document.querySelectorAll('{FIGURE} .mark-symbol path[fill=transparent]').length"
    assert whole.run(hollow) == 5, "one for each model after the final norm"
    assert any("after the final norm" in label for label in before)
    after = change(whole, whole.click, "#baselines")
    assert any("random-init" in label for label in before) and not any("random-init" in label for label in after)
    hidden = whole.run("return [...document.querySelectorAll('.panel[hidden]')].map(p => p.dataset.value)")
    assert "gpt2 (shuffled)" in hidden and "gpt2" not in hidden
    assert change(whole, whole.click, "#baselines") == before
    after = change(whole, whole.choose, "#site", "attention")
    assert whole.run(hollow) == 0 and len(after) == count_of(reports, "whole", "site = 'attention'")
    whole.assert_quiet()


def test_a_heat_map_has_a_cell_for_each_two_layers_and_marks_are_read_with_the_arrow_keys_and_a_finger(whole):
    whole.click('[id="figure-layer_pairs.pairs"] .fill')
    inside = panel("layer_pairs.pairs", "gpt2 × gpt2")
    assert len(marks(whole, inside)) == 7 * 7
    pick = 'select[data-chart="{}"][data-pick="{}"]'.format
    change(whole, whole.choose, pick("layer_pairs.pairs", "statistic"), "knn", of=inside)
    whole.choose(pick("layer_pairs.pairs", "among"), "bert with others")
    assert whole.run("return document.querySelector(arguments[0]).hidden", inside) is True
    assert len(marks(whole, panel("layer_pairs.pairs", "bert × gpt2"))) == 5 * 7
    whole.run("document.querySelector('.open .open-tools button:last-child').click()")
    whole.click('[id="figure-variance.types"] .fill')
    inside = panel("variance.types", "tuned")
    before = marks(whole, inside)
    assert len(before) == 40 and "token-" in before[0]
    change(whole, whole.choose, pick("variance.types", "part"), "1", of=inside)
    whole.keys("ARROW_RIGHT", on=f"{inside} .plot")
    (first,) = whole.texts(f"{inside} .told")
    whole.keys("ARROW_RIGHT")
    (second,) = whole.texts(f"{inside} .told")
    assert "model tuned" in first and "occurrences" in first and "model tuned" in second and first != second
    whole.keys("ESCAPE")
    assert whole.texts(f"{inside} .told") == []
    whole.run(  # where the ring would be is where a finger finds the same mark
        f"const mark = document.querySelector('{inside} .mark-symbol path[aria-label]').getBoundingClientRect();"
        "const at = { clientX: mark.x + mark.width / 2 + 4, clientY: mark.y + mark.height / 2, bubbles: true };"
        f"document.querySelector('{inside} svg.marks').dispatchEvent(new MouseEvent('click', at))"
    )
    assert "model tuned" in whole.texts(f"{inside} .told")[0]
    whole.assert_quiet()


def test_a_link_shows_a_statistic_that_waits_and_numbers_of_no_corpus_are_drawn(tab, reports):
    tab.open(reports / "whole" / "layers.html", query="?figure=variance.total")
    assert marks(tab, panel("variance.total", "nested"))
    tab.run("document.querySelector('.open .open-tools button:last-child').click()")
    assert tab.run("return document.querySelector('#figure-variance\\\\.total').checkVisibility()") is False
    tab.open(reports / "exhibited" / "layers.html")
    assert marks(tab, panel("probes.linear", "classes"))
