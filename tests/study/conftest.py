import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import BaseModel, ConfigDict, Field

from reporter.runs.studies import offer
from reporter.study import SpecError, load_study
from reporter.study.offer import Fixed, Offer, Statistics


class NoOptions(BaseModel):
    """None."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DimensionOptions(NoOptions):
    """Options with every kind of value that a metric may ask for."""

    sample: int = Field(4096, ge=32, description="tokens")
    target: str = Field("block", pattern="^(block|final)$", description="layer")
    scales: tuple[int, ...] = Field((1, 2), description="scales")
    share: float = Field(0.9, gt=0, le=1, description="share")


def offered(metrics: Mapping[str, type[BaseModel]], statistics: Statistics = {}, fixed: Fixed = {}) -> Offer:  # noqa: B006
    """What a study may ask for where these are the metrics, beside all analyses and sources of texts."""
    return replace(offer(), metrics=metrics, statistics=statistics, fixed=fixed)


def assert_words(message, words):
    """Assert that the words are in a message, in this order; ``…`` stands for any words."""
    assert re.search(".*".join(map(re.escape, words.split(" … "))), message)


@pytest.fixture(scope="session")
def catalogue():
    return {"anisotropy": NoOptions, "convergence": NoOptions, "intrinsic_dimension": DimensionOptions}


@pytest.fixture
def load(tmp_path, catalogue):
    """Load a study from its text, where these statistics are offered."""

    def read(text, statistics={}):  # noqa: B006
        path = tmp_path / "study.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_study(path, offered(catalogue, statistics)).study

    return read


@pytest.fixture
def complain(load, tmp_path):
    """Load a broken study; return its lines without the folder."""

    def read(text, statistics={}):  # noqa: B006
        with pytest.raises(SpecError) as caught:
            load(text, statistics)
        return [line.replace(f"{tmp_path}/", "") for line in str(caught.value).split("\n")]

    return read
