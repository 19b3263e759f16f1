"""Which texts of a source a corpus keeps."""

from __future__ import annotations

from dataclasses import dataclass

_PARTS = {
    "missing": "{} missing (NULL)",
    "empty": "{} empty",
    "short": "{} shorter than min_words",
    "long": "{} longer than max_words",
    "others": "{} with another label",
}


@dataclass
class Filter:
    """Keeps texts with ``min_words`` to ``max_words`` words and counts what it drops, by reason.

    A word is what stands between white space. Surrounding white space is cut off; nothing else is changed.

    Args:
        min_words: fewest words of a text that is kept.
        max_words: most words, or None for no bound.
    """

    min_words: int = 1
    max_words: int | None = None
    missing: int = 0
    empty: int = 0
    short: int = 0
    long: int = 0
    others: int = 0

    def keep(self, text: str | None, wanted: bool = True) -> tuple[str, int] | None:
        """Return the text without surrounding white space and its number of words, or None to drop it.

        Args:
            text: as its source has it.
            wanted: whether its label is one that the corpus keeps.
        """
        if text is None:
            self.missing += 1
            return None
        text = text.strip()
        words = len(text.split())
        if words == 0:
            self.empty += 1
            return None
        if words < self.min_words:
            self.short += 1
            return None
        if self.max_words is not None and words > self.max_words:
            self.long += 1
            return None
        if not wanted:
            self.others += 1
            return None
        return text, words

    @property
    def dropped(self) -> int:
        """How many texts were not kept."""
        return self.missing + self.empty + self.short + self.long + self.others

    def explain(self) -> str:
        """Say how many texts were read and why none was kept: "read 3 texts: 1 empty, 2 shorter …"."""
        reasons = [phrase.format(n) for part, phrase in _PARTS.items() if (n := getattr(self, part))]
        return f"read {self.dropped} texts" + (": " + ", ".join(reasons) if reasons else "")
