"""The paragraph of a paper: main statistics of two sides, with intervals of ± ``half``. Not a test."""

from reporter.report.paper_comparison import MOST_MODELS, _Comparison

FILES = ("report/paper_comparison.py",)
TITLES = {"Mean cosine": (0.3, 0.8), "Grassmann speed": (1.0, 1.01)}


def results(half=0.05, difference="enc − dec", roles=False, partial=(), reasons=(), lacks=(), values=(), models=2):
    """Return the paragraph, of too many models none; a statistic of ``lacks`` has no interval."""
    if models > MOST_MODELS:
        return ""
    numbers = []
    for title, (a, b) in (TITLES | dict(values)).items():
        sides = [a, b, a - b][: 3 if difference else 2]
        numbers.append([(x, None, None) if title in lacks or x is None else (x, x - half, x + half) for x in sides])
    made = _Comparison(
        "compared",
        "wiki",
        "all tokens",
        roles,
        ("enc", "dec"),
        difference,
        list(TITLES),
        numbers,
        dict(reasons),
        partial,
    )
    return made.paragraph


CASES = {
    "results": [
        ("Mean over the embedding and all blocks, with 95 % intervals, on wiki. Computed from all tokens.", {},
         "Means over models and layers, with 95 % intervals, on wiki.", {"roles": True}),
        (", with 95 % intervals, on wiki. Computed from all tokens.", {}, "", {"models": 7}),
        ("The difference is paired over texts where both", {}, "", {"difference": ""}),
        ("Intervals of differences are not corrected for the number of statistics.", {}, "", {"difference": ""}),
        ("Over the layers that both have: mean cosine and Grassmann speed.", {"partial": list(TITLES)}, "",
         {"partial": ()}),
        ("No interval: mean cosine (3 texts).", {"lacks": ["Mean cosine"], "reasons": {"Mean cosine": "3 texts"}}, "",
         {"lacks": ()}),
        ("No interval: mean cosine. ", {"lacks": ["Mean cosine"]}, "No interval: mean cosine (3 texts).",
         {"reasons": {"Mean cosine": "3 texts"}}),
        ("(difference −0.5, which has no interval)", {"lacks": ["Mean cosine"]}, "in dec (difference −0.50 [",
         {"lacks": ()}),
        ("Mean cosine was 0.30 [0.25, 0.35] in enc and 0.80 [0.75, 0.85] in dec (difference −0.50 [−0.55, −0.45]).", {},
         "in enc and 0.800 [0.750, 0.850] in dec; they did not differ", {"values": {"Mean cosine": (0.79, 0.8)}}),
        ("in dec; they did not differ significantly (difference −0.010 [−0.060, 0.040])", {}, "", {"half": 0.005}),
    ],
}  # fmt: skip
