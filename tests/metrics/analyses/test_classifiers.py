"""Classifiers, folds and intervals against scikit-learn, SciPy and closed forms."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.preprocessing import StandardScaler

from reporter.metrics import _classifiers as classifiers
from reporter.metrics._classifiers import all_the_same, cross_validated, linear, paired, standardised, stratified


def blobs(count, classes, apart, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(count) % classes
    return rng.standard_normal((count, d)) + apart * rng.standard_normal((classes, d))[y], y


@pytest.mark.parametrize("classes", [2, 4])
def test_the_linear_classifier_minimises_the_penalised_loss(classes):
    x, y = blobs(150, classes, 0.7)
    rows, one_hot = blobs(400, classes, 0.7, seed=1)[0], np.eye(classes)[y]

    def loss(flat):
        weights, intercepts = flat[: classes * 6].reshape(classes, 6), flat[classes * 6 :]
        logs = log_softmax(x @ weights.T + intercepts, axis=1)
        return -(logs * one_hot).sum() / len(x) + classifiers.PENALTY / 2 * np.square(weights).sum()

    best = minimize(loss, np.zeros(classes * 7), options={"gtol": 1e-6}).x
    expected = (rows @ best[: classes * 6].reshape(classes, 6).T + best[classes * 6 :]).argmax(axis=1)
    assert np.mean(linear(x, y, 0)(rows) == expected) > 0.995
    assert linear(x, 0 * y + 3, 0)(rows[:2]).tolist() == [3, 3], "a single class is always predicted"


def test_no_text_is_in_its_own_training_folds():
    """A classifier that remembers everything knows nothing of what was left out."""

    def remembers(x, y, fold):
        known = {row.tobytes(): one for row, one in zip(np.round(x, 6), y, strict=True)}
        return lambda rows: np.array([known.get(row.tobytes(), -1) for row in np.round(rows, 6)])

    x, y = blobs(60, 3, 1.0)
    found = cross_validated(x, y, stratified(y, 5, np.random.default_rng(0)), remembers)
    assert found.accuracy == 0.0 and found.memorised == 1.0


def test_folds_hold_each_class_evenly():
    y = np.repeat([0, 1, 2], [23, 11, 7])
    fold = stratified(y, 5, np.random.default_rng(3))
    table = np.array([[np.sum((y == one) & (fold == k)) for k in range(5)] for one in range(3)])
    assert table.max(axis=1).tolist() == [5, 3, 2] and table.min(axis=1).tolist() == [4, 2, 1]
    assert np.ptp(np.bincount(fold)) <= 1
    assert not np.array_equal(fold, stratified(y, 5, np.random.default_rng(4)))


def test_standardised_by_the_training_folds_alone():
    x, _ = blobs(50, 2, 1.0)
    x[:, 2] = 7.0 + 1e-6 * np.random.default_rng(0).standard_normal(50)  # rounding is not blown up
    inside, outside = standardised(x[:30], x[30:])
    scaler = StandardScaler().fit(x[:30])
    kept = [0, 1, 3, 4, 5]
    assert outside[:, kept] == pytest.approx(scaler.transform(x[30:])[:, kept])
    assert not inside[:, 2].any() and not outside[:, 2].any()
    assert all_the_same(np.ones((4, 3))) and all_the_same(np.zeros((4, 3))) and not all_the_same(x)
    assert all_the_same(np.ones((4, 3)) + 1e-7 * np.eye(4, 3))


def test_a_paired_difference():
    a, b = np.array([1, 1, 0, 1], bool), np.array([0, 1, 1, 0], bool)
    mean, low, high = paired(a, b)
    half = 3.182446 * np.std([1, 0, -1, 1], ddof=1) / 2  # Student's t with three degrees of freedom
    assert (mean, low, high) == pytest.approx((0.25, max(-1, 0.25 - half), min(1, 0.25 + half)))


def test_a_hidden_layer_is_trained_as_torch_does():
    x, y = blobs(60, 3, 1.0)
    found = classifiers.perceptron(x, y, 3, 5, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    layers = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    with torch.no_grad():
        for layer in (layers[0], layers[2]):
            shape = layer.weight.T.shape
            layer.weight.copy_(torch.from_numpy(rng.standard_normal(shape) * (2 / shape[0]) ** 0.5).T)
            layer.bias.zero_()
    rate, inputs = classifiers.RATE / 6**0.5, torch.from_numpy(x).float()
    adam = torch.optim.AdamW(layers.parameters(), lr=rate, weight_decay=classifiers.DECAY)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, classifiers.STEPS)
    for _ in range(classifiers.STEPS):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(layers(inputs), torch.from_numpy(y)).backward()
        adam.step()
        falling.step()
    for mine, theirs in zip(found, layers.parameters(), strict=True):
        assert mine.numpy() == pytest.approx(theirs.detach().numpy().T, abs=1e-4)
