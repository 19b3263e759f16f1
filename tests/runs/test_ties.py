"""Equal entries: libraries promise no order among them, and another processor takes another one."""

import pandas as pd
import torch
from runs.conftest import NUMBERS, ONE_THREAD, ONLY

from reporter.geometry.neighbours import smallest

PAIRS = "SELECT * FROM layer_pairs ORDER BY ALL"


def test_numbers_do_not_depend_on_the_order_of_equal_entries(of_one_process, small, study, run, store, monkeypatch):
    """They come in the opposite order wherever a library may choose; a model that barely learned has many."""
    topk, sort = torch.Tensor.topk, torch.Tensor.sort

    def sort_backwards(x, dim=-1, descending=False, stable=False):
        if stable:
            return sort(x, dim=dim, descending=descending, stable=True)
        values, indices = sort(x.flip(dim), dim=dim, descending=descending, stable=True)
        return torch.return_types.sort((values, x.shape[dim] - 1 - indices))

    def topk_backwards(x, k, dim=-1, largest=True, sorted=True):
        values, indices = topk(x.flip(dim), k, dim, largest, sorted)
        return torch.return_types.topk((values, x.shape[dim] - 1 - indices))

    def smallest_backwards(x, count):
        values, indices = smallest(x.flip(1), count)
        return values, x.shape[1] - 1 - indices

    monkeypatch.setattr("torch.Tensor.topk", topk_backwards)
    monkeypatch.setattr("torch.Tensor.sort", sort_backwards)
    monkeypatch.setattr("torch.Tensor.argsort", lambda x, **how: sort_backwards(x, **how).indices)
    monkeypatch.setattr("reporter.geometry.neighbours.smallest", smallest_backwards)
    assert run(study(ONE_THREAD, metrics="[all]"), only=ONLY)[0].failed == 0
    for query in (NUMBERS, PAIRS):
        pd.testing.assert_frame_equal(store.frame(query), of_one_process.frame(query), rtol=1e-6, atol=1e-12)
