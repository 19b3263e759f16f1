"""How a study is run; nothing here changes what is measured."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from reporter.spec.part import Complaint, Part, failure
from reporter.spec.problems import show
from reporter.spec.recipes import LARGEST_SEED

DEVICE = r"auto|cpu|mps|cuda(:[0-9]{1,3})?"


def _device(value: str) -> str:
    if not re.fullmatch(DEVICE, value):
        raise failure(Complaint(f"expected 'auto', 'cpu', 'mps', 'cuda' or 'cuda:0', got {show(value)}"))
    return value


Keep = Literal["all", "sums", "nothing"]


class RunSpec(Part):
    """Where and how the forward passes are done."""

    device: Annotated[str, AfterValidator(_device)] = Field(
        "auto",
        description="auto (a GPU if there is one), cpu, mps, cuda, or a certain GPU such as cuda:0.",
        json_schema_extra={"pattern": f"^({DEVICE})$"},
    )
    precision: Literal["auto", "mixed", "float32"] = Field(
        "auto",
        description="mixed: bfloat16 products on float32 weights; auto: mixed where a self-check passes.",
    )
    batch_tokens: int = Field(8192, ge=1, description="The most tokens in a batch, padding included.")
    keep: Keep = Field(
        "all",
        description="What of a pass stays in the cache once the cells of the study are computed: all, compactly; sums, "
        "without the sampled states, which take most of the room; nothing. A later study measures again what it lacks.",
    )
    threads: int | None = Field(
        None, ge=1, le=1024, description="Threads at most; one for each core that it may use if left out."
    )
    engine: Literal["local", "ray"] = Field(
        "local", description="Who does the forward passes: this machine, or a Ray cluster (reporter[ray])."
    )
    address: str | None = Field(
        None, description="Of the Ray cluster's head, such as 10.0.0.1:6379; auto: one that this machine belongs to."
    )
    workers: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Processes, or Ray actors, that do the passes; each has run.threads threads, 1 if left out. Of Ray "
        "as many as it has room for if left out.",
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Seeds bootstraps, samples and floors.")
