"""Sources of text: the study itself, files, datasets of a hub, generators. It is kept on disk."""

from reporter.texts.build import build_texts
from reporter.texts.texts import Texts

__all__ = ["Texts", "build_texts"]
