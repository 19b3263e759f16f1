"""Batches of hidden states without a model behind them."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    """Random numbers, the same in each test."""
    return np.random.default_rng(0)


@pytest.fixture
def make_batch():
    """Return a function that makes a batch from states and facts in any order of rows."""

    def make(states, texts, positions=None, strata=None, contexts=None, token_ids=None, layout=None):
        """``states`` has (tokens, width) for each place; ``strata`` is one of 0, 1, 2 for each token."""
        import torch

        from reporter.forward.batch import HiddenBatch
        from reporter.forward.readout import Vocabulary
        from reporter.forward.token_categories import Sinks
        from reporter.models.places import Layout

        count = len(texts)
        positions = range(count) if positions is None else positions
        facts = (texts, positions, [0] * count if strata is None else strata)
        facts += tuple(positions if of is None else of for of in (contexts, token_ids))
        texts, positions, strata, contexts, token_ids = (np.asarray(of, dtype=np.int64) for of in facts)
        order = np.argsort(strata, kind="stable")
        own = [row for row in np.argsort(positions, kind="stable") if strata[row] != 1]
        first = np.isin(range(count), np.take(own, np.unique(texts[own], return_index=True)[1]))
        columns = dict.fromkeys(("texts", "originals", "units"), texts)
        columns |= {"token_ids": token_ids, "positions": positions, "first_own": first, "frequent": token_ids % 3 == 0}
        columns |= {"contexts": contexts.astype(np.uint64), "embedding_contexts": token_ids.astype(np.uint64)}
        sinks = {"first": positions % 3 + 1, "last": positions % 3 + 2, "ratio": positions / 3}
        sinks |= {"dominance": positions / 7, "dimension": positions % 5}
        tensors = [torch.tensor(x[order], dtype=torch.float32) for x in map(np.asarray, states)]
        size = max(40, int(token_ids.max(initial=0)) + 1)
        none = np.zeros(size, dtype=bool)
        table = torch.randn(size, tensors[0].shape[1], generator=torch.Generator().manual_seed(0))
        return HiddenBatch(
            layout=layout or Layout(len(tensors) - 1, tensors[0].shape[1]),
            states=tensors,
            norms=torch.stack([x.norm(dim=-1) for x in tensors]),
            known_norms=np.stack([x.norm(dim=-1).numpy() for x in tensors]),
            peaks=np.stack([x.abs().amax(dim=-1).numpy() for x in tensors]),
            sizes=tuple(np.bincount(strata, minlength=3).tolist()),
            sinks=Sinks(strata[order] == 2, *(of[order] for of in sinks.values())),
            **{name: column[order] for name, column in columns.items()},
            vocabulary=Vocabulary(table, np.arange(size) % 3, none, none),
        )

    return make


@pytest.fixture
def feed():
    """Return a function that shows batches to an observable, as the pass does, and returns it."""

    def run(observable, *batches):
        for batch in batches:
            observable.start(batch)
            for layer in batch.layers():
                observable.observe(layer)
            observable.finish(batch)
        observable.settle()
        return observable

    return run
