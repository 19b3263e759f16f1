"""Sentences with formulas as LaTeX has them."""

from reporter.report.tex import typeset


def test_formulas_are_formulas():
    written = {"λ1/Σλ, λ the eigenvalues": r"$\lambda_1/\sum\lambda$, $\lambda$ the eigenvalues"}
    written |= {"of cos(h_l, h_{l+1}) at l": r"of $\cos(h_l, h_{l+1})$ at $l$", "(1/L) Σ f(l)": r"$(1/L) \sum f(l)$"}
    written |= {"d(V, W) = √Σθ²": r"$d(V, W) = \sqrt{\sum\theta^2}$", "< 10^(−12)": "$< 10^{-12}$"}
    written |= {"−0.13 [−0.15, −0.11]": "$-0.13$ [$-0.15$, $-0.11$]", "1.2 × 10⁻⁵": r"$1.2 \times 10^{-5}$"}
    written |= {"block l (h_0 enters), j its largest |x_j|": "block $l$ ($h_0$ enters), $j$ its largest $|x_j|$"}
    written |= {"steps l → l+1, x_{t−1}": r"steps $l \rightarrow l+1$, $x_{t-1}$", "the text's own": "the text's own"}
    written |= {"`top_share` of 50 %": r"\texttt{top\_\allowbreak{}share} of 50 \%"}
    written |= {"中": r"\ifdefined\Umathchar 中\else\texttt{U+4E2D}\fi{}"}
    assert {text: typeset(text) for text in written} == written
