"""Reading a study's charts by mouse and keys: cursor, legend, means, two views, search; and the address."""

import pytest

from reporter.store import Store

pytestmark = pytest.mark.browser
NAME = "anisotropy.top_variance_share"
FIGURE = f'.panel[data-chart="{NAME}"][data-corpus="nested"]'
POINTS = f"[...document.querySelectorAll('{FIGURE} .mark-symbol path')]"
LABELS = f"{POINTS}.map(mark => mark.getAttribute('aria-label'))"
ADDRESS = "return Object.fromEntries(new URLSearchParams(location.search))"
PRESS = "dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))"
TIP = "return [...document.querySelectorAll('.tip:not([hidden]) tr')].map(row => row.innerText)"
VALUES = f"[...document.querySelectorAll('{FIGURE} .at-depth span')].map(line => line.textContent)"
TICKS = "return [...document.querySelectorAll(arguments[0] + ' .role-axis-label text')].map(t => t.textContent)"
CURSORS = """return [...document.querySelectorAll('.panel')].filter(
  one => one.panel?.near && one.querySelector("svg.marks .mark-rule line[opacity='0.9']")).length"""


@pytest.fixture
def open_at(tab, reports):
    """Returns a function that opens the page at an address, in a browser that remembers nothing, its charts drawn."""

    def open_page(query=""):
        tab.open(reports / "made-up" / "layers.html", query=query)
        tab.see(FIGURE)
        tab.until(f"return {POINTS}.length > 0")

    return open_page


@pytest.fixture
def page(tab, open_at):
    open_at()
    return tab


def point_of(tab, depth):
    """Where a depth is in the chart, near its upper edge, where no mark is."""
    axis = f"[...document.querySelectorAll('{FIGURE} .role-axis-domain line')]"
    line = tab.run(f"return {axis}.map(l => l.getBoundingClientRect().toJSON()).sort((a, b) => b.width - a.width)[0]")
    frame = tab.run(f"return document.querySelector('{FIGURE} svg.marks .background').getBoundingClientRect().toJSON()")
    return line["x"] + depth * line["width"], frame["y"] + 3


def test_a_mouse_reads_all_models_in_all_charts_a_press_keeps_the_cursor_and_keys_go_from_layer_to_layer(page, reports):
    x, y = point_of(page, 0.52)
    page.mouse(x, y)
    page.until(f"{TIP}.length")
    rows = {row.split()[0]: row for row in page.run(TIP)[:-1]}
    assert set(rows) >= {"bert", "gpt2"} and len(rows) == 4 and page.run(TIP)[-1].startswith("bert − minilm")
    (stored,) = Store(reports / "results.duckdb").records(
        "SELECT value, layer FROM layer_metrics WHERE study = 'made-up' AND metric = 'anisotropy' "
        "AND statistic = 'top_variance_share' AND corpus = 'nested' AND view = 'text tokens' AND model = 'bert' "
        "AND checkpoint = 'step600' AND site IN ('embedding', 'block') ORDER BY abs(depth - 0.52) LIMIT 1"
    )
    numbers = page.run("return [...document.querySelectorAll('.tip td')].map(cell => cell.firstChild.textContent)")
    one, other, difference = (float(numbers[i].replace("−", "-")) for i in (0, 1, -1))
    assert one == pytest.approx(stored["value"], rel=5e-3)
    assert difference == pytest.approx(one - other, abs=1e-9), "the difference of what is shown"
    assert f"layer {stored['layer']}" in rows["bert"]
    assert page.run(CURSORS) > 2, "the line stands in all charts"
    assert "depth" not in page.run(ADDRESS), "what only passes is not kept"
    box = page.run("return document.querySelector('.tip').getBoundingClientRect().toJSON()")
    assert box["width"] <= 300 and 0 < box["left"] - x < 40, "it stands beside the pointer"
    page.mouse(*point_of(page, 0.5), press=True)
    page.mouse(5, 5)
    page.until("return new URLSearchParams(location.search).has('depth')")
    kept = float(page.run(ADDRESS)["depth"])
    assert abs(kept - 0.5) < 0.02
    page.browser.refresh()
    page.until(f"return {VALUES}.length === 5")
    assert float(page.run("return document.getElementById('depth').value")) == pytest.approx(kept, abs=0.01)
    page.run(PRESS, "Escape")
    page.until(f"return {VALUES}.length === 0 && !location.search")
    depth = "return Math.abs(Number(new URLSearchParams(location.search).get('depth') ?? NaN) - arguments[0]) < 1e-3"
    for key, expected in ((".", 0), (".", 1 / 8), (",", 0)):  # the first layer of the deepest model comes next
        page.run(PRESS, key)
        page.until(depth, expected)
    assert page.texts(f"{FIGURE} .at-depth b") == ["Layer 0 · depth 0.00"]


def test_models_are_hidden_alone_and_renamed_and_the_address_says_so(page, open_at, reports):
    def use(model, tool):
        row = f"document.querySelector('button.model[data-model={model}]').parentElement"
        page.run(f"{row}.querySelector('.{tool}').click()")

    page.run("document.querySelector('details.legend').open = true")
    use("bert", "hide")
    page.until(f"return {POINTS}.length === 21")
    use("minilm", "solo")
    page.until(f"return {POINTS}.length === 5 && {LABELS}.every(label => label.includes('minilm'))")
    alone = page.run(TICKS, FIGURE)
    page.click(".show-all")
    page.until(f"return {POINTS}.length === 28")
    assert page.run(TICKS, FIGURE) != alone, "the axis follows"
    for name, key, kept in (("bert", "ENTER", "minilm"), ("Other", "ESCAPE", "minilm"), ("Mini", "ENTER", "Mini")):
        use("minilm", "name")
        page.keys(name, key)
        assert page.texts("button.model[data-model=minilm] span") == [kept], "two models never get one name"
    assert not page.run("return location.search.includes('highlight')"), "Enter takes the name, and no more"
    use("bert", "hide")
    page.until("return location.search.includes('name.minilm=Mini') && location.search.includes('hide=bert')")
    open_at(page.run("return location.search"))
    page.until(f"return {POINTS}.length === 21 && {LABELS}.some(label => label.includes('Mini'))")
    assert not any("minilm" in label for label in page.run(f"return {LABELS}"))
    colours = page.run(f"return new Set({POINTS}.map(mark => mark.getAttribute('fill'))).size")
    assert colours == 3, "a renamed model keeps its colour"
    page.open(reports / "made-up" / "index.html", query="?name.minilm=Mini")
    page.until("return document.querySelector('main').innerText.includes('Mini')")
    assert "minilm" not in page.run("return document.querySelector('.turned').innerText")
    page.assert_quiet()


def test_two_token_sets_are_drawn_in_one_panel_and_roles_as_means(page, open_at):
    dashed = f"[...document.querySelectorAll('{FIGURE} .mark-line path')]"
    before, ticks = page.run(f"return {dashed}.length"), page.run(TICKS, FIGURE)
    page.click("input[value=both]")
    page.until(f"return {dashed}.length > arguments[0]", before)
    page.until("return location.search === '?view=both'")
    assert page.run(f"return {POINTS}.length") == 28, "only the first token set has marks"
    assert page.run(TICKS, FIGURE) == ticks
    page.click("input[value='text tokens']")
    page.until(f"return {dashed}.length === arguments[0] && !location.search", before)
    page.click("#means")
    page.until(f"return {LABELS}.every(label => label.includes('mean of '))")
    assert "95 % intervals over models" in page.texts(f"{FIGURE} svg")[0]
    page.until("return location.search.includes('means=yes')")
    open_at("?means=yes&depth=0.5")
    page.until(f"return {VALUES}.length >= 2")
    names = {line.partition(":")[0] for line in page.run(f"return {VALUES}")}
    assert {"mean of encoders", "mean of decoders"} <= names and not {"minilm", "gpt2"} & names


def test_all_controls_are_in_the_address_and_travel_to_the_other_pages(page, open_at):
    axis = "[id='figure-anisotropy.isoscore']"
    noted = "return document.querySelector(arguments[0])?.textContent.includes('logarithmic')"
    page.click("input[value='without sinks']")
    page.choose("#moment", 0, "input")
    page.click("button.model[data-model=bert]")
    page.click(f'[id="figure-{NAME}"] .pin')
    page.choose(f"{axis} select[data-pick=axis]", "log")
    chosen = {"view": "without sinks", "moment": "step 0", "highlight": "bert", "board": NAME}
    page.until("return [...arguments[0], 'axis'].every(name => location.search.includes(`${name}=`))", list(chosen))
    assert page.run(ADDRESS).items() >= chosen.items()
    page.see(FIGURE)
    labels = page.run(f"return {LABELS}")
    open_at(page.run("return location.search"))
    page.until(f"return {LABELS}.join() === arguments[0]", ",".join(labels))
    assert page.run("return document.querySelector('input[name=view]:checked').value") == "without sinks"
    assert page.texts("#moment-label") == ["step 0"]
    assert page.run("return document.querySelector('button.model[data-model=bert]').ariaPressed") == "true"
    assert page.texts(".board h3 a") == ["variance explained by the first principal component"]
    page.click(f"{axis} .fill")
    page.until(noted, f"{axis} svg.marks")
    page.run(PRESS, "Escape")
    page.click(".board .pin")
    page.until("return document.querySelector('.board').hidden && !location.search.includes('board')")
    page.until("return document.querySelector('.pages a').href.includes('index.html?view=without+sinks')")
    page.click(".pages a")
    page.until("return location.pathname.endsWith('/index.html') && document.querySelector('input[name=view]')")
    page.until("return document.querySelector('input[name=view]:checked').value === 'without sinks'")


def test_an_address_that_makes_no_sense_shows_the_page(tab, open_at):
    open_at("?view=nothing&moment=step+x&hide=nobody&depth=NaN&corpus=x&figure=x&board=y&name.x=y")
    tab.until(f"return {POINTS}.length === 28")
    tab.assert_quiet()


def test_a_search_finds_figures_of_all_pages_by_title_definition_and_other_words(page):
    def search(words):
        page.run(PRESS, "/")
        page.until("return document.querySelector('dialog.search').open")
        page.keys(words)

    search("isoscore")
    page.until("return document.querySelectorAll('.found a').length > 0")
    page.keys("ENTER")
    page.until("return !document.querySelector('dialog.search').open")
    page.until("return document.querySelector('.figure.open')?.id === 'figure-anisotropy.isoscore'")
    page.run(PRESS, "Escape")
    for words, title in (("pca", "first principal component"), ("floor", "chance level"), ("gpt2", "gpt2")):
        search(words)
        found = "[...document.querySelectorAll('.found b')].some(b => b.textContent.includes(arguments[0]))"
        page.until(f"return {found}", title)
        page.keys("ESCAPE")


def test_figures_are_gone_through_and_fill_the_screen_and_back_undoes_each_choice(page):
    def press(key):
        page.run(PRESS, key)
        return page.run("return document.activeElement.id")

    page.click("input[value='without sinks']")
    page.until("return location.search === '?view=without+sinks'")
    page.run("scrollTo({top: 0, behavior: 'instant'})")
    first, second = press("j"), press("j")
    assert first.startswith("figure-") and second.startswith("figure-") and first != second
    assert press("k") == first
    press("e")
    page.until("return document.querySelector('.figure.open')?.id === arguments[0]", first)
    page.until("return `figure-${new URLSearchParams(location.search).get('figure')}` === arguments[0]", first)
    box = page.run("return document.querySelector('.figure.open').getBoundingClientRect().toJSON()")
    assert box["width"] > 1300 and box["height"] > 800
    page.run("history.back()")
    page.until("return !document.querySelector('.figure.open') && location.search === '?view=without+sinks'")
    page.run("history.forward()")
    page.until("return document.querySelector('.figure.open') && location.search.includes('figure=')")
    press("j")
    assert page.run("return document.querySelector('.figure.open').id") == second
    page.until("return location.search.includes(arguments[0])", second.removeprefix("figure-"))
    page.browser.refresh()
    page.until("return document.querySelector('.figure.open')?.id === arguments[0]", second)
    page.until("return document.querySelector('.figure.open svg.marks')")
    assert page.run("return document.querySelector('.bar-of-study').inert")
    press("Escape")
    page.until("return !document.querySelector('.figure.open') && !document.querySelector('.bar-of-study').inert")


def test_a_sent_address_shows_its_figure_though_charts_above_it_grow(tab, reports):
    last = "[...document.querySelectorAll('.groups > section')].pop()"
    tab.open(reports / "made-up" / "layers.html", query="?view=both#group-dimension")
    assert tab.run(f"return {last}.id") == "group-dimension"
    tab.run("document.querySelector('main').style.paddingTop = '3000px'")  # as charts do that come late
    tab.until(f"const {{top}} = {last}.getBoundingClientRect(); return top >= 0 && top < innerHeight")
    tab.run("dispatchEvent(new Event('wheel')); scrollTo({top: 0, behavior: 'instant'})")
    tab.run("document.querySelector('main').style.paddingTop = ''")
    assert tab.run("return new Promise(done => setTimeout(() => done(scrollY), 300))") == 0
