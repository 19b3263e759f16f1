from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field

from reporter.spec import SpecError, Study, load_study
from reporter.spec.offer import Offer


class NoOptions(BaseModel):
    """None."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DimensionOptions(NoOptions):
    """Options with every kind of value that a metric may ask for."""

    sample: int = Field(4096, ge=32, description="tokens")
    target: str = Field("block", pattern="^(block|final)$", description="layer")
    scales: tuple[int, ...] = Field((1, 2), description="scales")
    share: float = Field(0.9, gt=0, le=1, description="share")


@pytest.fixture(scope="session")
def catalogue() -> dict[str, type[BaseModel]]:
    return {"anisotropy": NoOptions, "convergence": NoOptions, "intrinsic_dimension": DimensionOptions}


@pytest.fixture
def load(tmp_path: Path, catalogue: dict[str, type[BaseModel]]) -> Callable[[str | bytes], Study]:
    """Load a study from its text."""

    def read(text: str | bytes) -> Study:
        path = tmp_path / "study.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_study(path, Offer(catalogue)).study

    return read


@pytest.fixture
def complain(load: Callable[[str | bytes], Study], tmp_path: Path) -> Callable[[str | bytes], list[str]]:
    """Load a broken study; return its lines without the folder."""

    def read(text: str | bytes) -> list[str]:
        with pytest.raises(SpecError) as caught:
            load(text)
        return [line.replace(f"{tmp_path}/", "") for line in str(caught.value).split("\n")]

    return read
