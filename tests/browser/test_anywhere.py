"""A report away from home: in one file, copied without its neighbours, on paper."""

import base64
import re
import shutil
import zlib

import pytest

from reporter.charts.styles import DARK, ENCODER, LIGHT

pytestmark = pytest.mark.browser
DRAWN = "return document.querySelectorAll('#glance svg.marks').length > 0"
READY = "return document.documentElement.classList.contains('all-data')"
# what stops Vega before it draws, and what stops it at the data
BROKEN = {
    '"type":"line"': '"type":"no mark"',
    '"mark":{': '"transform":[{"calculate":"datum.no.such","as":"x"}],"mark":{',
}
ON_PAPER = "return [...document.querySelectorAll('#glance .figure:first-child .on-paper')].map(one => one.textContent)"


def test_one_file_shows_the_report_asks_for_nothing_and_lets_no_other_script_run(tab, single):
    tab.open(single / "made-up.html", dark=True)
    tab.until(DRAWN)
    assert tab.run("return document.querySelectorAll('a.home').length") == 0, "there is no list of studies beside it"
    tab.click("input[name=view][value='with special tokens']")
    tab.assert_quiet()
    tab.run(
        "window.hit = []; document.body.insertAdjacentHTML('beforeend', '<img src=x: onerror=\"hit.push(1)\">');"
        "const own = document.createElement('script'); own.textContent = 'hit.push(2)'; document.body.append(own);"
        "const other = document.createElement('script'); other.src = 'data:text/javascript,hit.push(3)';"
        "document.body.append(other)"
    )
    tab.until("return document.images.length > 0 && document.images[document.images.length - 1].complete")
    assert tab.run("return hit") == []
    assert any("Content Security Policy" in said for said in tab.complaints())


def test_one_file_has_every_page_of_the_study(tab, single):
    tab.open(single / "explored.html")
    tab.until("return document.querySelector('.pages a:not([aria-current])') !== null")
    tab.run("[...document.querySelectorAll('.pages a')].find(a => a.textContent === 'Tokens').click()")
    tab.until("return document.querySelector('.stage .word') !== null")
    assert tab.run("return location.search") == "?page=tokens"
    assert "journey=" in tab.run("return location.hash")
    tab.browser.refresh()
    tab.until("return document.querySelector('.stage .word') !== null")
    tab.assert_quiet()


def test_a_study_that_is_copied_alone_is_whole_and_a_page_alone_says_what_is_missing(tab, reports, tmp_path):
    copy = shutil.copytree(reports / "made-up", tmp_path / "made-up")
    tab.open(copy / "index.html")
    tab.until(DRAWN)
    assert not tab.run("return document.getElementById('alone').checkVisibility()")
    tab.assert_quiet()
    for whole, broken in BROKEN.items():
        for data in (reports / "made-up" / "data").glob("*.js"):
            (copy / "data" / data.name).write_text(data.read_text().replace(whole, broken))
        tab.open(copy / "index.html")
        tab.until("return document.querySelectorAll('.four .panel .broken').length > 1")
        assert all("could not be drawn" in said and "numbers as CSV" in said for said in tab.texts(".panel .broken"))
    shutil.rmtree(copy / "data")
    tab.open(copy / "layers.html")
    tab.see(".panel")
    assert "is not beside this page" in tab.until("return document.querySelector('.panel .broken')?.textContent")
    shutil.rmtree(copy / "assets")
    tab.open(copy / "index.html")
    tab.until("return document.getElementById('alone').checkVisibility()")
    assert "the folder assets is not beside it" in tab.texts("#alone")[0]
    lines = "[...document.querySelectorAll('.small-profile svg path')].map(line => getComputedStyle(line).fill)"
    assert set(tab.run(f"return {lines}")) == {"none"}, "a line that is filled is a black shape"


def test_paper_has_a_key_the_choices_in_words_and_every_chart_in_ink_on_white(tab, reports):
    tab.open(reports / "made-up" / "index.html", dark=True)
    tab.until(READY)
    tab.click("input[name=view][value='with special tokens']")
    tab.run("dispatchEvent(new Event('beforeprint'))")
    (choices,) = tab.run(ON_PAPER)
    assert "tokens: with special tokens" in choices and "checkpoint: last" in choices
    assert "bert" in tab.run("return document.querySelector('#glance .figure svg').textContent"), "a line has its name"
    a, b = tab.run("""return [...document.querySelectorAll('#glance .figure')].slice(0, 2).map(figure => {
      const at = figure.getBoundingClientRect(); return [at.left, at.right, at.top]; })""")
    assert a[2] == b[2] and a[1] < b[0], "two figures stand beside each other, or At a glance takes ten sheets"
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run(ON_PAPER) == []
    pdf = base64.b64decode(tab.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert len(re.findall(rb"/Type /Page\b", pdf)) <= 15
    streams = re.findall(rb"/FlateDecode.*?stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    painted = b"".join(zlib.decompressobj().decompress(stream) for stream in streams)
    for theme, is_painted in ((LIGHT, True), (DARK, False)):  # a PDF names three channels of four digits
        channels = (f"{channel / 255:.4f}".strip("0") for channel in bytes.fromhex(theme[ENCODER][0][1:]))
        assert (" ".join(channels).encode() in painted) == is_painted, "the screen was dark"
    tab.assert_quiet()


ANSWER = """
<details class="folded-answer"><summary>Why?</summary><h2>Why?</h2>
<article class="claim answer" data-about="bert"><h3>bert</h3><p>Because.</p>
<details><summary>What it rests on</summary><table><tr><td>1</td></tr></table></details></article></details>
"""


def test_on_paper_figures_follow_what_comes_first_and_tables_of_answers_come_last(tab, reports):
    tab.open(reports / "whole" / "index.html")
    tab.run("document.querySelector('main').firstElementChild.insertAdjacentHTML('afterend', arguments[0])", ANSWER)
    parts = "return [...document.querySelector('main').children].map(own => own.id || own.className)"
    before = tab.run(parts)
    tab.run("dispatchEvent(new Event('beforeprint'))")
    printed = tab.run(parts)
    assert printed[:3] == [before[0], "glance", "folded-answer"] and printed[-1] == "on-paper appendix"
    (table,) = tab.texts(".appendix")
    assert "Why? · bert" in table and tab.run("return document.querySelector('.appendix details').open")
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run(parts) == before and not tab.run("return document.querySelector('.answer > details').open")


def test_paper_shows_the_charts_that_nobody_scrolled_to(tab, reports):
    tab.open(reports / "exhibited" / "weights.html", height=300)
    tab.until(READY)
    tab.run("dispatchEvent(new Event('beforeprint'))")
    tab.until("return [...document.querySelectorAll('.plot')].every(plot => plot.querySelector('svg, canvas, table'))")
    tab.run("dispatchEvent(new Event('afterprint'))")
    tab.assert_quiet()
