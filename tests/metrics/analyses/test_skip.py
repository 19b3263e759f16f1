"""Blocks left out: against models that were built without them, and losses against transformers' own."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
import transformers
from oracles.corpora import corpus
from oracles.families import build_language_model, language_model_class, loaded
from scipy.stats import kendalltau, spearmanr

from reporter.app.verify.reading import key as hashed
from reporter.core.imports import changed
from reporter.core.places import ranges
from reporter.forward.parts import poisson_weights
from reporter.metrics._block_sets import Proposal, proposals
from reporter.metrics._items import drawn_texts
from reporter.metrics._unit_sums import UnitSums
from reporter.metrics.analysis import Context, analyses
from reporter.metrics.base import Value
from reporter.metrics.skip import RepeatedBlocks, Skip, SkippedBlocks, _of_blocks, _repeats
from reporter.models.places import Layout

IDS = torch.randint(5, 20, (2, 9), generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])


@contextmanager
def in_order(module, order):
    """Give a model other blocks: some of its own, in an order."""
    longest = max((m for m in module.modules() if isinstance(m, torch.nn.ModuleList)), key=len)
    blocks = {str(number): longest[block] for number, block in enumerate(order)}
    with changed(longest, _modules=blocks), changed(module.config, num_hidden_layers=len(blocks)):
        yield


OF_FIRST = ("deberta-v2, convolution", "t5")
"""Families that have more than a state from block 1: a convolution behind it, the position bias of all blocks."""
FAMILIES = ["gpt2", "llama", "bert", "deberta-v2", "deberta-v2, convolution", "t5", "albert", "modernbert"]
FAMILIES += ["longformer", "xlnet"]  # whose blocks pass on padding, or texts as the second axis


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pass_that_starts_at_a_later_block_is_one_of_other_blocks(family_model, family):
    """Without each block and two of them, and with blocks twice: a model that was built so and never saw a hook."""
    model = family_model(family)
    every = range(layers := model.anatomy.layers)
    edits = [((block + 1, block, []), [n for n in every if n != block]) for block in every]
    edits.append(((1, 0, [3]), [n for n in every if n not in (0, 2)]))
    edits += [((i, j), [*range(j), *range(i, layers)]) for i, j in ((0, 1), (0, layers), (1, layers), (1, 2))]
    with torch.inference_mode():
        kept, resume = model.keep(IDS, MASK)
        edited = [resume(*edit) for edit, _ in edits]
        again = model.run(IDS, MASK)
        assert model.resumable
        for (_, order), last in zip(edits, edited, strict=True):
            if family in OF_FIRST and (0 not in order or len(order) > layers):
                continue
            # One module plays every block of ALBERT, so that another model has fewer calls or more.
            calls = changed(model.module.config, num_hidden_layers=len(order))
            with calls if family == "albert" else in_order(model.module, order):
                expected = model.module(**model.inputs(IDS, MASK)).last_hidden_state
            torch.testing.assert_close(last[MASK == 1], expected[MASK == 1])
        model.capture.clear()
    assert all(torch.equal(a, b) for a, b in zip(kept.path, again.path, strict=True))


def test_a_model_whose_last_block_needs_earlier_ones_runs_them_all(family_model, monkeypatch):
    model, ran = family_model("gpt2"), []
    with torch.inference_mode():
        _, resume = model.keep(IDS, MASK)
        expected = resume(2, 1)
        monkeypatch.setitem(vars(model), "resumable", False)
        for number, block in enumerate(model.module.h):
            monkeypatch.setattr(block.attn, "_forward_hooks", {0: lambda *_, number=number: ran.append(number)})
        result = resume(2, 1)
    assert ran == list(range(len(model.module.h))) and torch.equal(result, expected)


RNG = np.random.default_rng(0)
TEXTS = corpus([" ".join(RNG.choice(["the", "cat", "sees", "a", "dog", "house"], 9)) for _ in range(24)])


def rows_of(context, **item):
    """Return the rows of an analysis of the texts of a context, and values by statistic and layer."""
    rows = list(analyses()["skip"].compute(Skip(corpus="c", texts=24, **item), context))
    return rows, {(row.statistic, row.place and row.place.layer): row for row in rows if isinstance(row, Value)}


def saved(folder, family):
    """Save a language model of four blocks; return what an analysis gets of it, and the order of the texts."""
    model = loaded(build_language_model(family, folder, **{"num_hidden_layers" if family == "bert" else "n_layer": 4}))
    context = Context(model, Layout.of(model.anatomy, ()), "mean", {"c": TEXTS}, 0, batch_tokens=64)
    return context, drawn_texts(TEXTS, 24, context)[0]


def test_without_a_head_there_is_the_order_of_blocks_and_why_there_is_no_loss(of_family):
    rows, values = rows_of(of_family("bert", {"c": TEXTS}), blocks=[1])
    assert values["loss", None].value is None and "no language-model head" in values["loss", None].reason
    assert values["influence", 0].value > 0 and not [row for row in rows if isinstance(row, SkippedBlocks)]


def influences(model, texts):
    """Return 1 − the mean cosine of the states of the texts' own tokens before and after each block."""
    paths = []
    for text in texts:
        coded = model.tokenizer(text, return_special_tokens_mask=True, return_tensors="pt")
        own = coded["special_tokens_mask"][0] == 0
        with torch.inference_mode():
            path = model.run(coded["input_ids"], torch.ones_like(coded["input_ids"])).path
        paths.append(torch.stack([state[0][own].double() for state in path]))
    x = torch.cat(paths, dim=1)
    return 1 - torch.cosine_similarity(x[:-1], x[1:], dim=-1).mean(dim=1).numpy()


def losses_by_text(folder, texts, order=range(4), masked=False):
    """Return Σ −log p and the tokens predicted of each text, by transformers alone, with blocks in an order."""
    whole = language_model_class("bert" if masked else "gpt2").from_pretrained(folder).eval()
    tokenizer, totals = transformers.AutoTokenizer.from_pretrained(folder), []
    more = {} if masked else {"use_cache": False}
    with in_order(whole, order), torch.inference_mode():
        for number, text in enumerate(texts):
            coded = tokenizer(text, return_special_tokens_mask=True, return_tensors="pt")
            ids, own = coded["input_ids"][0], (coded["special_tokens_mask"][0] == 0).tolist()
            hidden = [i for i in range(len(ids)) if own[i] and hashed(0, number, i) < 0.15 * 2**64]
            at = hidden if masked else [i for i in range(1, len(ids)) if own[i]]
            shown = ids.clone()
            if masked:
                shown[hidden] = tokenizer.mask_token_id
            log_p = whole(input_ids=shown[None], **more).logits[0].double().log_softmax(dim=-1)
            totals.append((sum(-log_p[i - (not masked), ids[i]].item() for i in at), len(at)))
    return np.array(totals).T


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_every_block_alone_by_brute_force(tmp_path, family):
    masked, (context, order) = family == "bert", saved(tmp_path, family)
    rows, values = rows_of(context, blocks=[2])
    sums, counts = losses_by_text(tmp_path, order, masked=masked)
    orders = [np.delete(range(4), block) for block in range(4)]
    without = np.array([losses_by_text(tmp_path, order, of, masked)[0] for of in orders])
    changes = (without.sum(axis=1) - sums.sum()) / counts.sum()
    for layer, change in enumerate(changes):
        value, excess = values["change", layer], values["excess", layer]
        assert (value.value, excess.value) == pytest.approx((change, change - changes.min()), abs=1e-5)
        assert value.ci_low < value.value < value.ci_high and value.n == counts.sum()
        assert 0 <= excess.ci_low <= excess.value + 1e-9 and excess.value <= excess.ci_high
    assert values["loss", None].value == pytest.approx(sums.sum() / counts.sum(), rel=1e-5)
    influence = [values["influence", layer].value for layer in range(4)]
    assert influence == pytest.approx(influences(context.model, order), abs=1e-6)
    value = values["rank_influence", None]
    assert value.value == pytest.approx(spearmanr(changes, influence).statistic)
    assert (value.ci_low, value.n) == (None, 4) and "fewer than 10 blocks" in value.reason
    assert values["rank_angle", None].value == value.value  # of four blocks both proxies have one order
    weights = poisson_weights(np.arange(len(order)), 0).T.astype(float)
    drawn = (weights @ (without - sums).T) / (weights @ counts)[:, None]
    taus = [kendalltau(replicate, changes).statistic for replicate in drawn[:200]]
    assert values["stability", None].value == pytest.approx(np.mean(taus), abs=0.05)
    tried = {row.by: row for row in rows if isinstance(row, SkippedBlocks)}
    if "loss" in tried:
        assert tried["loss"].blocks == ranges(np.argsort(changes)[:2] + 1, commas=True)
    for row in tried.values():
        assert row.change == pytest.approx(row.loss - values["loss", None].value)
        assert row.change_low <= row.change <= row.change_high
        left = [n for n in range(4) if f"{n + 1}" not in row.blocks.replace("–", ", ").split(", ")]
        expected = losses_by_text(tmp_path, order, left, masked)[0].sum() / counts.sum()
        assert row.loss == pytest.approx(expected, abs=1e-5)


def test_a_rank_correlation_has_an_interval_over_blocks_as_wide_as_their_number_allows():
    """Texts that all say the same leave no doubt about the texts, and all of it about so few blocks."""
    rng, ends = np.random.default_rng(0), {}
    for blocks in (4, 12, 30):
        layout = Layout(blocks, 8)
        sums = np.tile(rng.standard_normal(blocks), (20, 1))
        losses = UnitSums(np.column_stack([np.zeros(20), sums]), np.ones(20))
        cosines = UnitSums(np.tile(rng.standard_normal(blocks), (20, 1)), np.ones(20))
        context = Context(None, layout, "mean", {}, 0)
        (value,) = (v for v in _of_blocks(losses, cosines, cosines, context) if v.statistic == "rank_influence")
        ends[blocks] = value.ci_low, value.ci_high
        if blocks > 4:
            half = 1.96 * np.sqrt((1 + value.value**2 / 2) / (blocks - 3))
            assert np.arctanh(value.ci_high) - np.arctanh(value.ci_low) == pytest.approx(2 * half, rel=1e-4)
    assert ends[4] == (None, None)


def test_blocks_run_twice_by_brute_force(tmp_path):
    context, order = saved(tmp_path, "gpt2")
    rows, values = rows_of(context, blocks=[1], every_block=False, repeats=True)
    assert ("change", 0) not in values
    repeats = {(row.first, row.last): row for row in rows if isinstance(row, RepeatedBlocks)}
    assert sorted(repeats) == [(i, j) for i in range(1, 5) for j in range(i, 5)]
    sums, counts = losses_by_text(tmp_path, order)
    for (first, last), row in [*repeats.items()][::3]:
        twice = losses_by_text(tmp_path, order, [*range(last), *range(first - 1, 4)])[0]
        assert row.change == pytest.approx((twice - sums).sum() / counts.sum(), abs=1e-5)
        assert row.change_low < row.change < row.change_high
        assert row.change_high - row.change == pytest.approx(row.change - row.change_low), "as corrected for the search"


def test_repetitions_are_tried_on_a_grid_and_all_around_the_best():
    noise = 0.01 * np.random.default_rng(0).standard_normal(30)

    def losses_of(edits):
        surface = [abs(i - 13) + abs(j - 17) - 0.5 for i, j, _ in edits]
        return UnitSums(np.add.outer(noise, surface) * 10, np.full(30, 10.0))

    rows = list(_repeats(UnitSums(noise * 10, np.full(30, 10.0)), losses_of, 24, 0))
    tried = {(row.first - 1, row.last) for row in rows}
    assert len(tried) == len(rows) < 24 * 25 / 2 / 4
    assert {(12, 18), (13, 17), (12, 17), (11, 16)} <= tried and (0, 24) in tried
    assert min(rows, key=lambda row: row.change).first == 14


def test_proposals_are_the_runs_that_turn_least_and_the_blocks_that_each_do():
    def of(blocks, *losses):
        return proposals(np.abs(at[:, None] - at), steps, blocks, np.array(losses))

    steps = np.array([0.3, 0.05, 0.2, 0.06, 0.21, 0.4])
    at = np.append(0, np.cumsum(steps))
    result = of(2)
    assert result[0].blocks == (2, 3) and result[0].by == "angle" and result[0].angle == pytest.approx(0.25)
    assert result[1] == Proposal((2, 4), "influence", None) and result[2].blocks == (3, 4)
    assert [one.blocks for one in of(1)] == [(2,), (4,), (3,)]
    assert [one.by for one in of(5)] == ["angle"] * 2  # the five that turn least are a run
    assert of(2, 0.1, 3.0, 4.0, 0.2, 5.0, 6.0) == [*result, Proposal((1, 4), "loss", None)]
    assert of(2, 3.0, 0.1, 4.0, 0.2, 5.0, 6.0) == result  # influence proposes it, too
