"""Import what loads models, without what only training, generation and compiling need."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from reporter.core.deferred import deferring
from reporter.core.imports import changed

_UNUSED = (
    "torch.distributed.tensor", "torch.distributed.checkpoint", "torch.distributed.elastic", "torch._dynamo",
    "torch._inductor", "torch.export", "scipy", "sklearn", "sympy", "trio",
)  # fmt: skip
"""What transformers imports for training, generation and compiling, which takes a second or two."""
_COMPILER = "torch._dynamo"


def import_transformers() -> None:
    """Import what loads models; another call does nothing."""
    if "transformers.modeling_utils" in sys.modules:
        return
    import torch

    with deferring(*_UNUSED, calls=True):
        from transformers.utils import import_utils

        read = import_utils.create_import_structure_from_path  # of all files, for each way to write their folder
        with changed(import_utils, create_import_structure_from_path=lambda path: read(_folder(path))):
            import transformers.models
        import transformers.masking_utils
        import transformers.modeling_layers
        import transformers.modeling_utils  # noqa: F401
    if _COMPILER not in sys.modules:
        sys.modules[_COMPILER] = torch._dynamo = _Compiler(_COMPILER)


def _folder(path: Any) -> Path:
    return Path(path).parent if Path(path).name == "__init__.py" else Path(path)


class _Compiler(ModuleType):
    """Stands in for torch's compiler until something uses more of it than the mark that a function is not compiled."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.marked: list[Any] = []

    def disable(self, fn: Callable[..., Any], *args: Any, wrapping: bool = True, **options: Any) -> Any:
        """Return a function of torch as it is; other functions are marked by the compiler itself."""
        if wrapping:
            return self.__getattr__("disable")(fn, *args, **options)
        self.marked.append(fn)
        return fn

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        import torch

        if sys.modules.get(_COMPILER) is self:
            del sys.modules[_COMPILER], torch._dynamo
            for fn in self.marked:  # torch asks again
                vars(fn).pop("__dynamo_disable", None)
        return getattr(import_module(_COMPILER), name)
