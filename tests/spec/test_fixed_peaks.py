"""A peak where a statistic has its value by definition is refused before anything runs."""

from __future__ import annotations

import pytest
from spec.conftest import offered

from reporter.spec import SpecError, load_study

FIXED = {"convergence.similarity": (("last", 1.0),)}


@pytest.mark.parametrize(("metrics", "at", "refused"), [("convergence", 1, True), ("convergence", 0.9, False),
                                                        ("{convergence: {target: final}}", 1, False)])  # fmt: skip
def test_a_peak_at_the_fixed_end(tmp_path, metrics, at, refused):
    from reporter.metrics.base import catalogue

    path = tmp_path / "s.yaml"
    path.write_text(
        f"study: s\nmodels: {{m: gpt2}}\ncorpora: {{wiki: {{texts: [a]}}}}\nmetrics: [{metrics}]\nclaims:\n"
        f"  c: {{says: x, shape: {{metric: convergence.similarity, is: peak-at, at: {at}}}}}\n"
    )
    options = {name: metric.options for name, metric in catalogue().items()}
    if not refused:
        assert load_study(path, offered(options, fixed=FIXED)).study.claims
        return
    with pytest.raises(SpecError) as caught:
        load_study(path, offered(options, fixed=FIXED))
    assert "s.yaml:6:" in str(caught.value) and "claims.c.shape.at: convergence.similarity is 1" in str(caught.value)
