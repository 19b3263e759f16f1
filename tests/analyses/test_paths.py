"""A journey's tokens in one plane, against scikit-learn up to sign."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from reporter.analyses.encode import EncodedText
from reporter.analyses.paths import paths, principal_components
from reporter.forward.places import Layout


@pytest.mark.parametrize("shape", [(40, 7), (12, 90), (5, 5)])
def test_principal_components(shape):
    x = np.random.default_rng(0).standard_normal(shape) * np.linspace(3, 1, shape[1]) + 5
    found = principal_components(x)
    pca = PCA(3, svd_solver="full").fit(x)
    expected = pca.transform(x)
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found, expected * signs, rtol=1e-9, atol=1e-9)
    largest = pca.components_[np.arange(3), np.abs(pca.components_).argmax(axis=1)]
    assert (largest * signs > 0).all()
    np.testing.assert_allclose(principal_components(-x), -found * 1, atol=1e-9)


def test_fewer_components_than_axes():
    line = np.outer([1.0, 2.0, 4.0], np.ones(8))
    found = principal_components(line)
    np.testing.assert_allclose(np.abs(np.diff(found[:, 0])), np.array([1, 2]) * 8**0.5)
    assert not found[:, 1:].any()
    assert not principal_components(np.ones((4, 8))).any()
    assert not principal_components(np.ones((1, 8))).any()
    assert principal_components(np.array([[0.0, 0.0], [3.0, 4.0]])).shape == (2, 3)


def encoded(index, layout, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    states = {
        place: torch.randn(tokens, w, generator=generator)
        for place, w in zip(layout.places, layout.widths, strict=True)
    }
    none = np.zeros(tokens, dtype=bool)
    return EncodedText(index, np.arange(tokens), none, none, states)


def test_all_texts_and_layers_share_a_plane_with_and_without_the_last():
    layout = Layout(3, 16, final_width=4, attention=True)
    texts = [encoded(0, layout, 5, 1), encoded(1, layout, 3, 2)]
    points = list(paths(texts, {0: "abcde", 1: "xyz"}, layout.path))
    for name, places in (("pca-joint", layout.path), ("pca-joint-without-last", layout.path[:-1])):
        x = np.concatenate([text.states[place].double().numpy() for text in texts for place in places])
        expected = PCA(3, svd_solver="full").fit_transform(x)
        mine = [point for point in points if point.projection == name]
        found = np.array([(point.x, point.y, point.z) for point in mine])
        signs = np.sign((found * expected).sum(axis=0))
        np.testing.assert_allclose(found, expected * signs, rtol=1e-5, atol=1e-6)
        who = [(point.part, point.place, point.point, point.label) for point in mine]
        labels = {0: "abcde", 1: "xyz"}
        assert who == [
            (f"text {text.index}", place, position, labels[text.index][position])
            for text in texts
            for place in places
            for position in range(len(text.ids))
        ]
