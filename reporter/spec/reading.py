"""What can be read of a model: under which view, at which site, against which null baseline."""

from __future__ import annotations

from typing import Literal

View = Literal["words", "all", "no-sinks"]
"""Which tokens count: the text's own, every token, or the text's own without sinks and without its first one."""

Site = Literal["embedding", "block", "final", "attention"]
"""Where in a model states are read."""

NullBaseline = Literal["random-init", "shuffled"]
"""The same architecture with random weights, or the same weights on shuffled tokens."""
