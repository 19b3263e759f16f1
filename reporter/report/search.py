"""What the search of a study's pages finds: figures by title, definition and source, terms, models and sink tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reporter.charts.formulas import as_plain

if TYPE_CHECKING:
    from reporter.charts.chart import Drawn
    from reporter.report.contents import Contents

SYNONYMS = {
    "anisotropy.mean_cosine": "self-similarity average cosine cone",
    "anisotropy.top_variance_share": "pca pc1 explained variance dominant direction",
    "angular_distance": "pruning block influence shortgpt",
    "intrinsic_dimension": "id twonn manifold",
    "layer_pairs": "cka rsa representation similarity knn",
    "lens": "logit lens early exit tuned lens",
    "loss": "perplexity ppl cross-entropy nll",
    "motion.step_cosine": "block influence residual update",
    "outliers": "massive activations outlier dimensions",
    "spectrum": "pca eigenvalues singular values rank",
    "attention": "attention sink heads",
    "skip": "ablation prune remove layer",
    "probes": "linear probe classifier accuracy",
    "partners": "sts similarity retrieval bitext translation recall mrr mexa centring all-but-the-top",
}
"""Words that people search for besides those of the definitions, by full name or by metric."""
TERMS = {
    "token set (view)": "view text tokens special sinks",
    "chance level": "floor baseline random",
    "interval": "confidence error bar ci bootstrap",
    "sink": "attention sink massive norm bos",
    "residual stream": "hidden state",
    "final norm": "layernorm rmsnorm final norm ln_f",
    "null baseline": "random init shuffled",
    "claim, verdict": "hypothesis test holm supported refuted",
}
"""Terms of the glossary with other words for them."""
MOST_TOKENS = 40


def search_index(contents: Contents) -> list[dict[str, str]]:
    """Return one entry for each thing that can be found: its ``title``, what it is ``about``, ``words``, a link."""
    entries = []
    trained = {drawn.id for drawn in contents.trained}
    for section in contents.sections:
        for drawn in section.charts:
            if drawn.shown:
                page = "training" if drawn.id in trained else "layers"
                about = f"{page.capitalize()} · {section.title}"
                entries.append(_figure(drawn, about, f"{page}.html?figure={drawn.id}"))
    for explorer in contents.explorers:
        entries += [
            _figure(drawn, explorer.title, f"{explorer.page}#figure-{drawn.id}")
            for drawn in explorer.charts
            if drawn.shown
        ]
    for claim in contents.claims.all:
        entries.append(_entry(claim["says"], "claim", str(claim["name"]), f"claims.html#claim-{claim['name']}"))
    for model in contents.scene.styles.own:
        entries.append(_entry(model.model, f"model, {model.role}", "", "method.html#models"))
    for row in (contents.sinks or {}).get("rows", [])[:MOST_TOKENS]:
        entries.append(_entry(repr(row["token"]), f"sink token of {row['model']}", "sink", "tokens.html#sinks"))
    entries += [_entry(title, "term", words, "method.html#glossary") for title, words in TERMS.items()]
    return entries


def _figure(drawn: Drawn, about: str, href: str) -> dict[str, str]:
    chart = drawn.chart
    synonyms = f"{SYNONYMS.get(drawn.id, '')} {SYNONYMS.get(drawn.id.partition('.')[0], '')}"
    sources = " ".join(source.citation for source in chart.sources)
    words = f"{drawn.id} {synonyms} {chart.lead} {as_plain(chart.definition)} {sources}"
    return _entry(drawn.title, about, words, href)


def _entry(title: str, about: str, words: str, href: str) -> dict[str, str]:
    return {"title": title, "about": about, "words": words.lower(), "href": href}
