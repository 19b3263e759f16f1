"""A journey's tokens in one plane, against scikit-learn up to sign."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from reporter.metrics._items import EncodedText
from reporter.metrics._journey_steps import paths
from reporter.models.places import Layout

NAMES = ("pca-joint", "pca-joint-without-last")


def encoded(index, layout, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    states = {
        place: torch.randn(tokens, w, generator=generator)
        for place, w in zip(layout.places, layout.widths, strict=True)
    }
    none = np.zeros(tokens, dtype=bool)
    return EncodedText(index, np.arange(tokens), none, states)


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


def test_fewer_components_than_axes():
    layout = Layout(1, 8)
    text = encoded(0, layout, 1, 3)
    points = {name: [p for p in paths([text], {0: "a"}, layout.path) if p.projection == name] for name in NAMES}
    far = float((text.states[layout.path[0]] - text.states[layout.path[1]]).norm())
    assert abs(points["pca-joint"][0].x - points["pca-joint"][1].x) == pytest.approx(far)
    assert all(p.y == pytest.approx(0, abs=1e-6) == p.z for p in points["pca-joint"])
    (alone,) = points["pca-joint-without-last"]
    assert (alone.x, alone.y, alone.z) == (0, 0, 0)
