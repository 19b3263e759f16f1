"""Made-up claims of every verdict, with the evidence that real ones have, one of them long and hostile; findings."""

HOSTILE = "<script>alert(1)</script>"
LONG = "Across every decoder that was looked at, the share of variance of the first principal component rises steeply, "
LONG += f"whereas no encoder shows anything of the kind {HOSTILE} a{'very' * 20}longwordwithoutanybreakatallinit."


def numbers(value, low, high, **more):
    return {"value": value, "ci_low": low, "ci_high": high} | more


RATE = {"says": "BERT converges to its final layer at 0.0826 a layer.", "source": "Lee 2024, §6.4", "kind": "value"}
RATE |= {"verdict": "supported", **numbers(0.0811, 0.0779, 0.0842), "paper": 0.0826, "p": 0.0004}
RATE |= {"holds_low": 0.0726, "holds_high": 0.0926, "holds_outside": False, "p_adjusted": 0.0032}
OF_RATE = {"statistic": "convergence.rate of bert on nested", "bound": "0.0826 ± 0.01", "tested": 4}
OF_RATE |= {"sql": "SELECT model, value, ci_low, ci_high\nFROM layer_metrics\nWHERE statistic = 'rate'"}
BULGE = {"says": "Anisotropy of decoders peaks in the middle layers.", "source": "Anonymous, §4.1", "kind": "shape"}
BULGE |= {"verdict": "supported", **numbers(0.231, 0.154, 0.309), "holds_low": 0.0, "p": 0.002, "p_adjusted": 0.012}
OF_BULGE = {"statistic": "middle third minus the higher outer third", "bound": "> 0", "tested": 4}
OF_BULGE |= {"definition": "bell: the middle third lies above both outer thirds.", "notes": ["Of 2 models."]}
OF_BULGE |= {"sql": "SELECT model, layer, value FROM layer_metrics WHERE statistic = 'top_variance_share'"}
OF_GPT2 = numbers(0.1, 0.08, 0.16, model="gpt2", corpus="nested", verdict="supported")
OF_BULGE["evidence"] = [OF_GPT2, OF_GPT2 | {"model": "llama"}, OF_GPT2 | {"model": "mean of 2 models"}]
OF_BULGE["parts"] = [{"name": "middle above first", **numbers(0.3, 0.2, 0.4), "p_holds": 0.001, "p_fails": 0.999}]
LOWER = {"says": LONG, "source": f"Somebody {HOSTILE} 2025, §3.2.1, table 7", "kind": "differ", "verdict": "refuted"}
LOWER |= {**numbers(-0.004, -0.0093, 0.0012), "holds_low": 0.05, "p": 0.03, "p_adjusted": 0.041}
OF_LOWER = {"statistic": f"mean over decoders minus mean over encoders {HOSTILE}", "bound": "> 0.05", "tested": 4}
OF_LOWER |= {"notes": [HOSTILE]}
OF_LOWER["effect"] = {"a": "decoders", "b": "encoders", "mean_a": 0.21, "mean_b": 0.214, "n_a": 2, "n_b": 2, "g": -0.4}
FREQUENT = {"says": "Frequent types vary less.", "source": None, "kind": "relation", "verdict": "inconclusive"}
FREQUENT |= {**numbers(-0.21, -0.52, 0.15), "holds_high": 0.0, "paper": -0.72, "p": 0.22, "p_adjusted": 0.44}
OF_FREQUENT = {"statistic": "Spearman correlation of count and variance", "bound": "< 0", "alone": "supported"}
LOSS = {"says": "The loss at the last step is below 3 nats.", "source": "ours", "kind": "value", "verdict": "failed"}
OF_LOSS = {"reason": "The query returned no row: no model of this study has a loss.", "bound": "< 3"}
CLAIMS = {"bert-rate": (RATE, OF_RATE), "decoders-bulge": (BULGE, OF_BULGE), "encoders-lower": (LOWER, OF_LOWER)}
CLAIMS |= {"frequent-first": (FREQUENT, OF_FREQUENT | {"tested": 4}), "loss-falls": (LOSS | {"view": None}, OF_LOSS)}
# what other readings change
OTHERS = [numbers(0.252, 0.16, 0.34, claim="decoders-bulge", view="with special tokens", verdict="supported")]
OTHERS += [numbers(-0.064, -0.11, -0.02, claim="decoders-bulge", view="without sinks", verdict="refuted")]
OTHERS += [numbers(0.2, 0.12, 0.3, claim="decoders-bulge", baseline="random-init", verdict="supported")]
OTHERS += [numbers(-0.01, -0.02, 0.0, claim="encoders-lower", view="without sinks", verdict="refuted")]
OTHERS += [numbers(0.04, -0.02, 0.1, claim="encoders-lower", baseline="random-init", verdict="inconclusive")]


def claims():
    """Rows of the table ``claims``."""
    for number, (name, (row, detail)) in enumerate(CLAIMS.items(), 1):
        first = {"claim": name, "number": number, "reading": 1, "view": "text tokens", "detail": detail} | row
        other = first | {"paper": None, "detail": {"statistic": detail.get("statistic", "")}}
        yield first
        others = (changed for changed in OTHERS if changed["claim"] == name)
        yield from (other | {"reading": at} | changed for at, changed in enumerate(others, 2))


OF_MODEL = {
    "claim": "bert-rate",
    "reading": 1,
    "view": "text tokens",
    "alone": "supported",
    "statistic": "convergence.rate",
}
OF_MODEL |= {**numbers(0.08, 0.07, 0.09), "p": 0.001, "p_adjusted": 0.004}
CLAIMS_BY_MODEL = [OF_MODEL | {"model": "bert", "verdict": "supported", "claimed": "> 0.06"}]
CLAIMS_BY_MODEL += [OF_MODEL | {"model": "gpt2", "verdict": "inconclusive", "claimed": "> -0.075"}]
CURVES = [{"label": "tuned", "x": [0, 0.5, 1], "y": [0.1, 0.4, 0.2], "own": True}]
CURVES += [{"label": "random weights", "x": [0, 0.5, 1], "y": [0.1, 0.1, 0.1], "own": False}]
FINDING = {"rank": 1, "kind": "extremes", "says": f"In tuned, the mean cosine peaks at layer 2 of 4. {HOSTILE}"}
FINDING |= {"metric": "motion", "statistic": "step_cosine", "chart": "motion.step_cosine", "model": "tuned"}
FINDING |= {"corpus": "nested", "view": "without sinks", "layer_first": 2, "layer_last": 3, **numbers(0.25, 0.2, 0.3)}
FINDING |= {"p": 1e-6, "p_adjusted": 9e-5, "looked_at": 90, "effect": 0.25}
FINDING["detail"] = {"what": "layer 2 minus layer 4", "test": "every other layer is lower", "curves": CURVES}
FINDING["detail"] |= {"mark": [0.5, 0.75], "notes": ["the baseline is one draw"], "sql": "SELECT 1"}
BARE = {"rank": 2, "model": None, "corpus": None, "chart": "nowhere.else", "detail": {"what": "a", "test": "b"}}
FINDINGS = [FINDING, FINDING | BARE]
