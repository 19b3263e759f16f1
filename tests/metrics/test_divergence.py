"""Divergence from the base against plain torch and transformers: which way KL goes, and which token is the next."""

import io
import warnings
from functools import cache

import numpy as np
import pytest
import torch
import yaml
from oracles.damages import damaged
from oracles.fake_model import FakeHead, FakeModel, made_up_texts
from oracles.families import WORDS, build_language_model, language_model_class
from transformers import AutoTokenizer

from reporter.core.progress import Progress
from reporter.forward.observed import Observed
from reporter.forward.token_sample import Outputs
from reporter.metrics.base import catalogue
from reporter.metrics.divergence import DivergenceOptions
from reporter.runs.runner import run_studies
from reporter.runs.studies import offer
from reporter.spec import load_study
from reporter.store import Store

METRIC = catalogue()["divergence"]
RNG = np.random.default_rng(0)
TEXTS = [" ".join(RNG.choice(WORDS, size=12)) for _ in range(24)]


@cache
def whole(folder):
    """Return a model as transformers has it, and its tokenizer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = language_model_class("gemma2").from_pretrained(folder).eval()
        return model, AutoTokenizer.from_pretrained(folder)


def logits_of(folder, text):
    """Return the ids of a text and the logits of the whole model."""
    model, tokenizer = whole(folder)
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        return ids[0], model(input_ids=ids).logits[0].double()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A decoder whose logits are capped, and a copy with a block changed, tied to nothing else."""
    folder = tmp_path_factory.mktemp("divergence")
    build_language_model("gemma2", folder / "base", final_logit_softcapping=3.0)
    damaged(folder / "base", folder / "copy", "noised by a fifth", 2)
    damaged(folder / "base", folder / "same", "nothing", 1)
    return folder


def test_a_run_finds_what_torch_finds(models):
    (models / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    study = {
        "study": "d",
        "models": {
            "base": {"path": str(models / "base")},
            "copy": {"path": str(models / "copy"), "base": "base"},
            "same": {"path": str(models / "same"), "base": "base"},
        },
        "corpora": {"c": {"file": str(models / "texts.txt"), "unit": "line"}},
        "metrics": ["divergence"],
        "views": ["all"],
    }
    (models / "d.yaml").write_text(yaml.safe_dump(study), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporter.runs.runner._report", lambda out, studies, progress: ())
        run_studies([load_study(models / "d.yaml", offer())], models / "out", progress=Progress(io.StringIO()))
    rows = Store(models / "out/results.duckdb").records("SELECT model, statistic, value, n FROM layer_metrics")
    measured = {(row["model"], row["statistic"]): row["value"] for row in rows}
    kl, top, change = [], [], []
    for text in TEXTS:
        (ids, after), (_, before) = (logits_of(models / name, text) for name in ("copy", "base"))
        p, q = after.log_softmax(-1), before.log_softmax(-1)
        kl.append(torch.nn.functional.kl_div(p, q, reduction="none", log_target=True).sum(-1))
        top.append(p.argmax(-1) == q.argmax(-1))
        losses = (torch.nn.functional.cross_entropy(x[:-1], ids[1:], reduction="none") for x in (after, before))
        mine, theirs = (torch.exp(-loss) for loss in losses)
        own = [i for i, token in enumerate(ids[1:].tolist()) if token > 3]  # the tokenizer's own tokens come first
        change.append((mine - theirs)[own])
    kl, top, change = (torch.cat(x).double().numpy() for x in (kl, top, change))
    expected = {"kl": kl.mean(), "kl_median": np.median(kl), "kl_90": np.quantile(kl, 0.9), "kl_max": kl.max()}
    expected |= {"same_top": top.mean(), "next": change.mean(), "next_rms": np.sqrt((change**2).mean())}
    for name, value in expected.items():
        assert measured["copy", name] == pytest.approx(value, rel=1e-3, abs=1e-7), name
    assert {measured["same", name] for name in ("kl", "kl_max", "next", "next_rms")} == {0.0}
    assert measured["same", "same_top"] == 1.0


@pytest.fixture
def side(observe, tmp_path):
    """Return a function that measures a made-up model and reads the sample back from its file."""

    def get(model, texts, head=True):
        observables, counts = observe(model, texts, names=("moments", "outputs"))
        observables["outputs"].save(tmp_path / "outputs.safetensors", finished=True)
        observables["outputs"] = Outputs.load(tmp_path / "outputs.safetensors")
        of = observables["moments"].layout, counts.distinct_texts, "words", 0
        return Observed(observables, *of, load_head=(lambda: FakeHead(model)) if head else None)

    return get


def compared(seen, base, **options):
    return {row.statistic: row for row in METRIC.between.compare(seen, [base], DivergenceOptions(**options))}


def test_states_are_kept_in_float32(side):
    model, texts = FakeModel(role="decoder", final_width=16), made_up_texts(40)
    numbers = compared(side(model, texts), side(FakeModel(role="decoder", final_width=16), texts))
    assert numbers["kl"].value == 0 and numbers["same_top"].value == 1
    nudged = FakeModel(role="decoder", final_width=16)
    nudged.weights[-1] = nudged.weights[-1] * np.float32(1 + 1e-5)
    tiny = compared(side(nudged, texts), side(model, texts))["kl"].value
    assert 0 < tiny < 1e-9


@pytest.mark.parametrize(
    ("model", "head", "says"),
    [
        (FakeModel(role="decoder", special=False), True, "the tokenizers differ"),
        (FakeModel(role="decoder"), False, "the model is not here"),
    ],
)
def test_without_the_same_tokens_or_a_head_there_is_a_reason(side, model, head, says):
    texts = made_up_texts(40)
    numbers = compared(side(model, texts, head), side(FakeModel(role="decoder"), texts))
    assert all(row.value is None and says in row.reason for row in numbers.values())


def test_an_encoder_has_no_next_token(side):
    texts = made_up_texts(40)
    nudged = FakeModel()
    nudged.weights[1] = nudged.weights[1] * np.float32(1.1)
    numbers = compared(side(nudged, texts), side(FakeModel(), texts), sample=64)
    assert numbers["kl"].value > 0 and numbers["kl"].n == 64
    assert numbers["next"].value is None and "hidden tokens" in numbers["next"].reason
