"""Names of layers and blocks for readers.

A model of L blocks has L + 1 layers: layer 0 is the embedding, and layer l is what block l returns. A number of a step
from layer l to layer l + 1 (``Statistic.per == "step"``) is stored at l, and it is a number of block l + 1.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

Pooling = Literal["first", "mean", "last"]
"""Which states of a text become one vector."""
POOLINGS: tuple[Pooling, ...] = ("mean", "last", "first")

EMBEDDING = "the embedding"
TokenSet = Literal["text tokens", "with special tokens", "without sinks"]
"""Which tokens count: the same names in studies (``views:``), tables (column ``view``), pages and Python."""
TOKEN_SETS: tuple[TokenSet, ...] = get_args(TokenSet)
TEXT_TOKENS, WITH_SPECIAL_TOKENS, WITHOUT_SINKS = TOKEN_SETS


def place(layer: int, step: bool = False) -> str:
    """Return the name of a layer: ``the embedding``, ``layer 3``, or ``block 4`` for the step from layer 3 to 4."""
    return f"block {layer + 1}" if step else EMBEDDING if layer == 0 else f"layer {layer}"


def places(layers: Sequence[int], step: bool = False, blocks: int | None = None) -> str:
    """Return the name of one or more layers: ``layers 3 and 6–8 of 12``, ``block 18 of 30``, ``the embedding``.

    Args:
        layers: the layers that the numbers are stored at.
        step: whether they are numbers of the steps to the next layers.
        blocks: how many blocks the model has; None leaves it out.
    """
    shown = sorted({layer + step for layer in layers})
    kind, embedding = ("block" if step else "layer"), not step and shown[0] == 0
    if embedding:
        shown = shown[1:]
    if not shown:
        return EMBEDDING
    named = f"{kind}{'s' * (len(shown) > 1)} {ranges(shown)}" + (f" of {blocks}" if blocks is not None else "")
    return f"{EMBEDDING} and {named}" if embedding else named


def end(layer: int, blocks: int, step: bool = False) -> str:
    """Return the name of an end of a profile: ``the embedding``, ``the first block``, ``the last layer`` and so on."""
    if layer + step == blocks:
        return f"the last {'block' if step else 'layer'}"
    return "the first block" if step and layer == 0 else place(layer, step)


def tag(layer: int, step: bool = False) -> str:
    """Return the name of a place as a key that sorts by depth: ``embedding``, ``layer 03``, ``block 04``."""
    return f"{'block' if step else 'layer'} {layer + step:02}" if layer or step else "embedding"


def ranges(numbers: Iterable[int], *, commas: bool = False) -> str:
    """Write whole numbers, neighbours by their ends: ``3 and 6–8``, ``1, 3 and 6–8``, or with commas ``1, 3, 6–8``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    names = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    return ", ".join(names) if commas else listed(names)


def numbers_of(text: str) -> list[int]:
    """Return the whole numbers that :func:`ranges` wrote with commas, such as ``3, 7–9``; none of an empty text."""
    runs = [[int(end) for end in run.split("–")] for run in text.split(", ") if run]
    return [number for run in runs for number in range(run[0], run[-1] + 1)]


def listed(names: Iterable[str]) -> str:
    """Write names one after another: ``a``, ``a and b``, ``a, b and c``."""
    names = list(names)
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def together(names: Iterable[str], most: int = 6) -> str:
    """Return the names of the models of a box, each once, or their number if there are more than ``most``."""
    models = list(dict.fromkeys(names))
    return ", ".join(models) if len(models) <= most else f"{len(models)} models"


def in_backticks(text: str) -> str:
    """Return a token, or any text of a user, as Markdown writes code: between more backticks than follow in it."""
    inner = " ".join(text.split()) or repr(text)
    fence = "`" * (max(map(len, re.findall("`+", inner)), default=0) + 1)
    space = " " if "`" in (inner[0], inner[-1]) else ""
    return f"{fence}{space}{inner}{space}{fence}"


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]
