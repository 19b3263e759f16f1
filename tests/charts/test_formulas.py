"""Formulas in definitions are set as print sets them, and nothing else of a text is."""

import re
from html import unescape

from reporter.charts.formulas import as_html, as_plain
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue


def v(text):
    return f"<var>{text}</var>"


def test_a_formula_is_typeset():
    written = {
        "‖μ‖": f"‖{v('μ')}‖",
        "λ1/Σλ": f"{v('λ')}<sub>1</sub>/Σ{v('λ')}",
        "cos(h_l, h_{l+1})": f"cos({v('h')}<sub>{v('l')}</sub>, {v('h')}<sub>{v('l')}+1</sub>)",
        "a_ij and a_i1": f"{v('a')}<sub>{v('i')}{v('j')}</sub> and {v('a')}<sub>{v('i')}1</sub>",
        "Σ_{i≠j} x_i²": f"Σ<sub>{v('i')}≠{v('j')}</sub> {v('x')}<sub>{v('i')}</sub>²",
        "μ^(3·d + 1) ≥ 2^-10": f"{v('μ')}<sup>3·{v('d')} + 1</sup> ≥ 2<sup>-10</sup>",
        "‖Y‖_* + (Σu)_j²": f"‖{v('Y')}‖<sub>*</sub> + (Σ{v('u')})<sub>{v('j')}</sub>²",
        "r128/r64 and δ̄_b": f"{v('r')}<sub>128</sub>/{v('r')}<sub>64</sub> and {v('δ̄')}<sub>{v('b')}</sub>",
        "`twonn` as in ``loss.lm``": "<code>twonn</code> as in <code>loss.lm</code>",
        "anisotropy.mean_cosine minus gride_1": "<code>anisotropy.mean_cosine</code> minus <code>gride_1</code>",
        # words: the article, I, abbreviations, units, compounds, possessives
        "a token, e.g. a [SEP]; I don't": "a token, e.g. a [SEP]; I don&#x27;t",
        "a t-test of GPT-2's L-BFGS in 5 s": "a t-test of GPT-2&#x27;s L-BFGS in 5 s",
        "(b − a)/max(a, b): a the mean": f"({v('b')} − {v('a')})/max({v('a')}, {v('b')}): {v('a')} the mean",
        "weights d69ee9e5dd0d, 2d": f"weights d69ee9e5dd0d, 2{v('d')}",
        # nothing in a text becomes an element
        "`<script>` h_{<b>} &amp;": f"<code>&lt;script&gt;</code> {v('h')}<sub>&lt;{v('b')}&gt;</sub> &amp;amp;",
    }
    assert {text: as_html(text) for text in written} == written


def test_where_only_letters_stand_indices_are_small_letters():
    assert as_plain("λ_{k+1} of `sample`, 2^-10") == "λₖ₊₁ of sample, 2⁻¹⁰"
    assert as_plain("V_W ≥ Σ_{i≠j} x_i") == "V_W ≥ Σ_(i≠j) xᵢ"  # no small W, no small ≠


def test_no_definition_loses_a_letter_or_keeps_a_mark_and_only_letters_alone_are_variables():
    statistics = [own for one in (*catalogue().values(), *analyses().values()) for own in one.statistics]
    for text in {text for own in statistics for text in (own.definition, own.trap, own.published, own.interval)}:
        html, plain = as_html(text), as_plain(text)
        shown = unescape(re.sub("<[^>]+>", "", html))
        assert sorted(re.sub(r"[`_^{}()]", "", shown)) == sorted(re.sub(r"[`_^{}()]", "", text)), text
        assert not re.search(r"[`^]|_\{", unescape(re.sub(r"<code>.*?</code>", "", html))), text
        assert not re.search(r"`|_\{", plain), plain
        for letter in re.findall("<var>(.*?)</var>", html):
            assert len(letter.rstrip("\u0304")) == 1 or letter in {"UU", "XX", "YY"}, (letter, text)
