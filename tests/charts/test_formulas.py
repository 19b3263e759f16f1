"""Formulas in definitions are set as print sets them, and nothing else of a text is."""

import re
from html import unescape

import pytest

from reporter.charts.formulas import as_html, as_plain
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue


def v(text):
    return f"<var>{text}</var>"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("‖μ‖", f"‖{v('μ')}‖"),
        ("λ1/Σλ", f"{v('λ')}<sub>1</sub>/Σ{v('λ')}"),
        ("cos(h_l, h_{l+1})", f"cos({v('h')}<sub>{v('l')}</sub>, {v('h')}<sub>{v('l')}+1</sub>)"),
        ("a_ij and a_i1", f"{v('a')}<sub>{v('i')}{v('j')}</sub> and {v('a')}<sub>{v('i')}1</sub>"),
        ("Σ_{i≠j} x_i²", f"Σ<sub>{v('i')}≠{v('j')}</sub> {v('x')}<sub>{v('i')}</sub>²"),
        ("μ^(3·d + 1) ≥ 2^-10", f"{v('μ')}<sup>3·{v('d')} + 1</sup> ≥ 2<sup>-10</sup>"),
        ("‖Y‖_* + (Σu)_j²", f"‖{v('Y')}‖<sub>*</sub> + (Σ{v('u')})<sub>{v('j')}</sub>²"),
        ("r128/r64 and δ̄_b", f"{v('r')}<sub>128</sub>/{v('r')}<sub>64</sub> and {v('δ̄')}<sub>{v('b')}</sub>"),
        ("`twonn` as in ``loss.lm``", "<code>twonn</code> as in <code>loss.lm</code>"),
        ("anisotropy.mean_cosine minus gride_1", "<code>anisotropy.mean_cosine</code> minus <code>gride_1</code>"),
        # words: the article, I, abbreviations, units, compounds, possessives
        ("a token, e.g. a [SEP]; I don't", "a token, e.g. a [SEP]; I don&#x27;t"),
        ("a t-test of GPT-2's L-BFGS in 5 s", "a t-test of GPT-2&#x27;s L-BFGS in 5 s"),
        ("(b − a)/max(a, b): a the mean", f"({v('b')} − {v('a')})/max({v('a')}, {v('b')}): {v('a')} the mean"),
        ("weights d69ee9e5dd0d, 2d", f"weights d69ee9e5dd0d, 2{v('d')}"),
        # nothing in a text becomes an element
        ("`<script>` h_{<b>} &amp;", f"<code>&lt;script&gt;</code> {v('h')}<sub>&lt;{v('b')}&gt;</sub> &amp;amp;"),
    ],
)
def test_a_formula_is_typeset(text, html):
    assert as_html(text) == html


def test_where_only_letters_stand_indices_are_small_letters():
    assert as_plain("λ_{k+1} of `sample`, 2^-10") == "λₖ₊₁ of sample, 2⁻¹⁰"
    assert as_plain("V_W ≥ Σ_{i≠j} x_i") == "V_W ≥ Σ_(i≠j) xᵢ"  # no small W, no small ≠


SAID = [
    text
    for metric in (*catalogue().values(), *analyses().values())
    for statistic in metric.statistics
    for text in (statistic.definition, statistic.trap, statistic.published, statistic.interval)
    if text
]


@pytest.mark.parametrize("kind", ["html", "plain"])
def test_no_definition_loses_a_letter_or_keeps_a_mark(kind):
    for text in dict.fromkeys(SAID):
        html = as_html(text)
        shown = unescape(re.sub("<[^>]+>", "", html))
        assert sorted(re.sub(r"[`_^{}()]", "", shown)) == sorted(re.sub(r"[`_^{}()]", "", text)), text
        visible = unescape(re.sub(r"<code>.*?</code>", "", html)) if kind == "html" else as_plain(text)
        assert not re.search(r"[`^]|_\{" if kind == "html" else r"`|_\{", visible), visible


def test_nothing_but_letters_that_stand_alone_is_a_variable():
    for text in SAID:
        for letter in re.findall("<var>(.*?)</var>", as_html(text)):
            assert len(letter.rstrip("\u0304")) == 1 or letter in {"UU", "XX", "YY"}, (letter, text)


def test_what_stands_behind_a_word_and_a_colon_begins_like_a_sentence():
    """The page writes "Caution:" before it; a formula or a name in code may begin as it is written."""
    declared = (*catalogue().values(), *analyses().values())
    cautions = [statistic.trap for one in declared for statistic in one.statistics]
    cautions += [chart.mind for one in declared for chart in one.charts]
    assert len(list(filter(None, cautions))) > 100
    assert not [said for said in cautions if said and said[0].islower()]


def test_what_a_page_says_names_no_file_that_its_reader_has_not():
    kinds = ("definition", "trap", "published", "interval", "grows")
    statistics = [statistic for one in (*catalogue().values(), *analyses().values()) for statistic in one.statistics]
    said = [getattr(statistic, kind) for statistic in statistics for kind in kinds]
    assert not [text for text in said if "tests/" in text or ".py" in text]
