"""Models: from a hub, from a folder, trained from a recipe, or given by states that were computed elsewhere."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from reporter.study.part import AsPath, AsTuple, Name, Part, Text, one_of, wrong
from reporter.study.problems import show
from reporter.study.recipes import AnyRecipe, Tuning

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class CheckpointSpec(Part):
    """One state of a model in training.

    Args:
        name: a hub revision, or a sub-folder of the model's path.
        step: the training step; None where it is unknown.
    """

    name: str
    step: int | None = None


_Step = Annotated[
    Annotated[int, Field(ge=0)] | None,
    Field(description="Training step. Default: read from names such as step512 or ckpt-512."),
]


class _Revision(Part):
    revision: Text = Field(description="Hub revision: a branch, a tag or a commit.")
    step: _Step = None


class _Folder(Part):
    folder: Text = Field(description="Sub-folder of `path`.")
    step: _Step = None


_STEP = re.compile(
    r"(?:^|[^a-z0-9])(?:global_?)?(?:steps?|ckpt|checkpoint|iter|iteration)[-_]?(\d{1,18})$", re.IGNORECASE
)


def step_of(name: str) -> int | None:
    """Return the training step in the name of a checkpoint: 512 for ``step512``, ``ckpt-512`` or ``512``.

    Other digits are no step, such as the number of a release (``v2``, ``release-2024``) or a commit.
    """
    if name.isdecimal() and len(name) <= 18:
        return int(name)
    match = _STEP.search(name)
    return int(match[1]) if match else None


def _checkpoint_of(kind: type[_Revision] | type[_Folder]) -> BeforeValidator:
    key = "revision" if kind is _Revision else "folder"

    def read(value: Any) -> Any:
        if isinstance(value, str):
            value = {key: value}
        elif not isinstance(value, dict):
            example = "step512" if kind is _Revision else "ckpt-512"
            message = (
                f"expected a name in quotes or a mapping such as {{{key}: {example}, step: 512}}, got {show(value)}"
            )
            raise wrong(message)
        checked = kind.model_validate(value)
        name = str(getattr(checked, key))
        step = checked.step if checked.step is not None else step_of(name)
        return CheckpointSpec(name=name, step=step)

    return BeforeValidator(read, json_schema_input_type=str | kind)


def _in_order(checkpoints: tuple[CheckpointSpec, ...]) -> tuple[CheckpointSpec, ...]:
    names = [checkpoint.name for checkpoint in checkpoints]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise wrong(f"checkpoint '{name}' is listed twice; remove one of them", index)
    if any(checkpoint.step is None for checkpoint in checkpoints):
        return checkpoints
    return tuple(sorted(checkpoints, key=lambda checkpoint: checkpoint.step or 0))


HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)


def _hub_id(value: str) -> str:
    if HUB_ID.fullmatch(value):
        return value
    if value.startswith((".", "/", "~")) or value.count("/") > 1 or "\\" in value:
        raise wrong(f"{show(value)} is not a hub id; to name a folder, write {{path: {value}}}")
    raise wrong(f"expected a hub id such as 'bert-base-uncased' or 'owner/name', got {show(value)}")


_PLACE = r"cpu|\d+"


def _place_for_weights(value: str) -> str:
    if not re.fullmatch(_PLACE, value):
        raise wrong(f"expected 'cpu' or the number of a GPU in quotes, such as '0', got {show(value)}")
    return value


class _Weights(Part):
    """The keys of models that already have weights."""

    dtype: Dtype = Field(
        "float32", description="Precision of the loaded weights; 'auto' keeps the precision of the checkpoint."
    )
    trust_remote_code: bool = Field(False, description="Run the Python code of the model's repository.")
    allow_pickle: bool = Field(
        False, description="Load pickle files, which can run code, if the model has no safetensors files."
    )
    adapter: Annotated[Path, AsPath] | None = Field(
        None,
        description="Folder of an adapter that PEFT saved, such as a LoRA. It is merged into the weights of this "
        "model.",
    )
    part: Literal["encoder", "decoder"] | None = Field(
        None,
        description="Measured half of an encoder–decoder such as T5. Default: the encoder. With 'decoder', the encoder "
        "and the decoder read the same text.",
    )

    device_map: Literal["auto"] | None = Field(
        None,
        description="'auto' splits a large model over all GPUs, then main memory, then disk, with the package "
        "accelerate. States are gathered on `run.device`.",
    )
    max_memory: dict[Annotated[str, AfterValidator(_place_for_weights)], Text] = Field(
        {},
        description="Memory that `device_map` may use on each device, such as {'0': 20GiB, cpu: 60GiB}. GPUs have "
        "their number as key. Default: all free memory.",
        json_schema_extra={"propertyNames": {"pattern": f"^({_PLACE})$"}},
    )
    offload_folder: Annotated[Path, AsPath] | None = Field(
        None,
        description="Folder for weights that fit neither on a GPU nor into main memory. Weights in safetensors files "
        "stay in these files.",
    )

    @model_validator(mode="after")
    def _split_as_it_was_saved(self) -> _Weights:
        for key in ("max_memory", "offload_folder"):
            if getattr(self, key) and self.device_map is None:
                raise wrong(f"needs `device_map: auto`; add it to the model, or remove `{key}`", key, anchor="key")
        if self.device_map and self.adapter:
            message = (
                "an adapter cannot be merged into a model that `device_map` splits. Merge it with PEFT, save the "
                "result, and use that folder as `path`"
            )
            raise wrong(message, "adapter", anchor="key")
        return self


class _Relations(Part):
    """The relations of a model to other models of the study, and its scores on benchmarks."""

    base: Name | None = Field(
        None,
        description="Model of this study that this model was tuned from. Default: the `from` of its recipe, if any.",
    )
    twin: Name | None = Field(
        None,
        description="Seed replicate: the model of this study that differs only in the seed of its training. "
        "Differences between the two are noise. Two recipes that differ only in `seed` are found without this key.",
    )
    scores: dict[Name, float] = Field(
        {}, description="Scores on benchmarks, such as {sst2: 0.93}, to correlate with the measured numbers."
    )


class _Reading(Part):
    """The keys of models that run on texts."""

    bos: Literal["as-is", "add", "none"] = Field(
        "as-is",
        description="BOS token before each text: 'add' it, leave it out ('none'), or keep what the tokenizer does "
        "('as-is'). In a decoder it decides which token becomes the sink.",
    )


class HubModel(_Weights, _Relations, _Reading):
    """A model from a hub."""

    hub: Annotated[Text, AfterValidator(_hub_id)] = Field(description="Hub id: 'owner/name' or 'name'.")
    revision: Text | None = Field(None, description="Branch, tag or commit. Default: the main branch.")
    tokenizer: Annotated[Text, AfterValidator(_hub_id)] | None = Field(
        None,
        description="Hub id of another repository with the tokenizer, for repositories of checkpoints without one.",
    )
    checkpoints: Annotated[
        tuple[Annotated[CheckpointSpec, _checkpoint_of(_Revision)], ...], AsTuple, AfterValidator(_in_order)
    ] = Field(
        (),
        description="Revisions to measure, in the order of training: names, or {revision: NAME, step: NUMBER}. The "
        "last checkpoint represents the model in comparisons. If all steps are known, the highest step is last.",
    )

    @model_validator(mode="after")
    def _one_way_to_name_revisions(self) -> HubModel:
        if self.revision is not None and self.checkpoints:
            message = "remove `revision`; it cannot be combined with `checkpoints`, which are revisions"
            raise wrong(message, "revision", anchor="key")
        return self


class PathModel(_Weights, _Relations, _Reading):
    """A model in a folder, in the format of ``save_pretrained``, or in one GGUF file."""

    path: Annotated[Path, AsPath] = Field(
        description="Folder of the model, or a GGUF file; relative to the study file, or absolute."
    )
    checkpoints: Annotated[
        tuple[Annotated[CheckpointSpec, _checkpoint_of(_Folder)], ...], AsTuple, AfterValidator(_in_order)
    ] = Field(
        (),
        description="Sub-folders to measure, in the order of training: names, or {folder: NAME, step: NUMBER}. The "
        "last checkpoint represents the model in comparisons. If all steps are known, the highest step is last.",
    )

    @model_validator(mode="after")
    def _folders_are_inside(self) -> PathModel:
        for index, checkpoint in enumerate(self.checkpoints):
            folder = PurePosixPath(checkpoint.name)
            if folder.is_absolute() or ".." in folder.parts:
                raise wrong(f"must be a sub-folder of `path`, got {show(checkpoint.name)}", "checkpoints", index)
        return self


class RecipeModel(_Relations, _Reading):
    """A model that the run trains before it measures it."""

    def differs_in_seed(self, other: Any) -> bool:
        """Return whether another model has the same recipe and the same base, but another seed."""
        if not isinstance(other, RecipeModel) or type(other.recipe) is not type(self.recipe):
            return False
        same = other.recipe.model_copy(update={"seed": self.recipe.seed}) == self.recipe
        return same and other.recipe.seed != self.recipe.seed and (other.base, other.bos) == (self.base, self.bos)

    recipe: AnyRecipe = Field(
        description="Architecture and training of a toy model; with `from`, the recipe model to train further."
    )

    @model_validator(mode="after")
    def _tuned_from_its_base(self) -> RecipeModel:
        if isinstance(self.recipe, Tuning) and "base" not in self.model_fields_set:
            object.__setattr__(self, "base", self.recipe.continues)  # the instance is frozen for its users only
        return self


def _read_states(value: Any) -> Any:
    if not isinstance(value, dict):
        raise wrong(f"expected one file for each corpus, such as {{wiki: big-on-wiki.safetensors}}, got {show(value)}")
    return value


class StatesModel(_Relations):
    """A model that ran elsewhere, given by its hidden states; ``reporter.save_states`` writes such files."""

    states: Annotated[dict[Name, Annotated[Path, AsPath]], BeforeValidator(_read_states)] = Field(
        min_length=1,
        description="Safetensors file of the states on each corpus; relative to the study file, or absolute.",
    )
    role: Literal["encoder", "decoder"] | None = Field(
        None, description="'encoder' if tokens see later tokens, else 'decoder'. Needed only if the files do not tell."
    )


_KINDS: dict[str, type[Part]] = {"hub": HubModel, "path": PathModel, "recipe": RecipeModel, "states": StatesModel}
_read_mapping = one_of(_KINDS, "{hub: owner/name}")


def _read_model(value: Any, info: ValidationInfo) -> Any:
    return _read_mapping({"hub": value} if isinstance(value, str) else value, info)


ModelSpec = Annotated[
    HubModel | PathModel | RecipeModel | StatesModel,
    BeforeValidator(_read_model, json_schema_input_type=str | HubModel | PathModel | RecipeModel | StatesModel),
]
"""A hub id as text, or a mapping; its key ``hub``, ``path``, ``recipe`` or ``states`` decides its kind."""
