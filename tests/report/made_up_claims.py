"""Made-up claims of every verdict, with the evidence that real ones have, one of them long and hostile.

Not a test: loaded by ``made_up.py``.
"""

from __future__ import annotations

from typing import Any

HOSTILE = "<script>alert(1)</script>"
LONG = (
    "Across every decoder that was looked at, whatever its size and whatever it was trained on, the share of variance "
    "that the first principal component takes rises steeply over the first third of the layers, stays high through "
    "the middle and falls only in the last two blocks, whereas no encoder shows anything of the kind "
    f"{HOSTILE} averyveryveryveryveryveryveryveryveryveryveryveryveryveryverylongwordwithoutanybreakatallinit."
)


def rows(study: str) -> list[dict[str, Any]]:
    """Rows of the table ``claims`` for a study."""
    found: list[dict[str, Any]] = []
    for number, (name, own, others) in enumerate(CLAIMS, 1):
        first = {"study": study, "claim": name, "number": number, "reading": 1} | own
        found.append(first)
        for reading, other in enumerate(others, 2):
            detail = {"statistic": own["detail"]["statistic"]} if "statistic" in own["detail"] else {}
            found.append(first | {"reading": reading, "paper": None, "detail": detail} | other)
    return found


def _numbers(value: float, low: float | None, high: float | None) -> dict[str, Any]:
    return {"value": value, "ci_low": low, "ci_high": high}


def _evidence(*models: str) -> list[dict[str, Any]]:
    return [
        {"model": model, "corpus": "nested", **_numbers(0.1 + 0.02 * i, 0.08, 0.16), "verdict": "supported"}
        for i, model in enumerate(models)
    ]


CLAIMS: tuple[tuple[str, dict[str, Any], list[dict[str, Any]]], ...] = (
    (
        "bert-rate",
        {
            "says": "BERT converges to its final layer at 0.0826 a layer.",
            "source": "Lee 2024, §6.4",
            "kind": "value",
            "view": "words",
            "verdict": "supported",
            **_numbers(0.0811, 0.0779, 0.0842),
            "holds_low": 0.0726,
            "holds_high": 0.0926,
            "holds_outside": False,
            "paper": 0.0826,
            "p": 0.0004,
            "p_adjusted": 0.0032,
            "detail": {
                "statistic": "convergence.rate of bert on nested",
                "definition": "The interval lies within 0.0726 and 0.0926; refuted when it lies outside.",
                "reason": "The whole interval lies within 0.01 of the paper's number.",
                "bound": "0.0826 ± 0.01",
                "tested": 4,
                "sql": "SELECT model, value, ci_low, ci_high\nFROM layer_metrics\nWHERE statistic = 'rate'",
            },
        },
        [],
    ),
    (
        "decoders-bulge",
        {
            "says": "Anisotropy of decoders peaks in the middle layers; that of encoders is flat.",
            "source": "Anonymous EACL submission, §4.1",
            "kind": "shape",
            "view": "words",
            "verdict": "supported",
            **_numbers(0.231, 0.154, 0.309),
            "holds_low": 0.0,
            "p": 0.002,
            "p_adjusted": 0.012,
            "detail": {
                "statistic": "middle third minus the higher outer third",
                "definition": "bell: the middle third lies above both outer thirds.",
                "reason": "Both differences are above 0 on the average of 2 decoders.",
                "bound": "> 0",
                "tested": 4,
                "evidence": _evidence("gpt2", "llama", "mean of 2 models"),
                "parts": [
                    {"name": "middle above first", **_numbers(0.3, 0.2, 0.4), "p_holds": 0.001, "p_fails": 0.999},
                    {"name": "middle above last", **_numbers(0.231, 0.154, 0.309), "p_holds": 0.002, "p_fails": None},
                ],
                "notes": ["Intervals are from 2 models by a t distribution.", "llama has 8 layers, gpt2 has 6."],
                "sql": "SELECT model, layer, value FROM layer_metrics WHERE statistic = 'top_variance_share'",
            },
        },
        [
            {"view": "all", "verdict": "supported", **_numbers(0.252, 0.16, 0.34)},
            {"view": "no-sinks", "verdict": "refuted", **_numbers(-0.064, -0.11, -0.02)},
            {"baseline": "random-init", "verdict": "supported", **_numbers(0.2, 0.12, 0.3)},
        ],
    ),
    (
        "encoders-lower",
        {
            "says": LONG,
            "source": f"Somebody {HOSTILE} 2025, §3.2.1, table 7, and again in the appendix, figures 12 to 19",
            "kind": "differ",
            "view": "words",
            "verdict": "refuted",
            **_numbers(-0.004, -0.0093, 0.0012),
            "holds_low": 0.05,
            "p": 0.03,
            "p_adjusted": 0.041,
            "detail": {
                "statistic": f"mean over decoders minus mean over encoders {HOSTILE}",
                "reason": "The interval lies below 0.05: a is not above b by that much.",
                "bound": "> 0.05",
                "tested": 4,
                "effect": {
                    "a": "decoders",
                    "b": "encoders",
                    "mean_a": 0.21,
                    "mean_b": 0.214,
                    "n_a": 2,
                    "n_b": 2,
                    "g": -0.4,
                },
                "notes": [HOSTILE],
            },
        },
        [
            {"view": "no-sinks", "verdict": "refuted", **_numbers(-0.01, -0.02, 0.0)},
            {"baseline": "random-init", "verdict": "inconclusive", **_numbers(0.04, -0.02, 0.1)},
        ],
    ),
    (
        "frequent-first",
        {
            "says": "Frequent types vary less.",
            "source": None,
            "kind": "relation",
            "view": "words",
            "verdict": "inconclusive",
            **_numbers(-0.21, -0.52, 0.15),
            "holds_high": 0.0,
            "paper": -0.72,
            "p": 0.22,
            "p_adjusted": 0.44,
            "detail": {
                "statistic": "Spearman correlation of count and variance",
                "bound": "< 0",
                "reason": "The interval straddles 0.",
                "alone": "supported",
                "tested": 4,
                "n": 31,
            },
        },
        [],
    ),
    (
        "loss-falls",
        {
            "says": "The loss at the last step is below 3 nats.",
            "source": "ours",
            "kind": "value",
            "view": None,
            "verdict": "failed",
            "detail": {"reason": "The query returned no row: no model of this study has a loss.", "bound": "< 3"},
        },
        [],
    ),
)
