"""Memory does not grow with the corpus, while it is built and while it is read."""

import tracemalloc

import pytest

from reporter.texts import build_texts
from reporter.texts.sources.generated import GeneratedCorpus
from reporter.texts.sources.stored import FileCorpus

from .test_files import write_table

TEXTS = 400
LINE = "some words of about a hundred characters so that ten times as many would be easy to see in memory"


def peak(folder, kind, texts):
    spec = GeneratedCorpus(generate="random-words", texts=texts, words=(15, 15))
    if kind != "random-words":
        write_table(folder / f"{texts}.{kind}", [(LINE, str(i % 4)) for i in range(texts)])
        spec = FileCorpus(file=f"{texts}.{kind}", column="text", label="label")
    tracemalloc.start()
    try:
        built = build_texts("mine", spec, folder, folder / "cache")
        assert sum(1 for _ in built) == sum(1 for _ in built.lengths()) == texts
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "random-words"])
def test_ten_times_the_corpus_takes_the_same_memory(tmp_path, kind):
    peak(tmp_path, kind, 10)  # imports and caches of the interpreter are no part of the corpus
    small, large = (peak(tmp_path, kind, texts) for texts in (TEXTS, 10 * TEXTS))
    # The buffers of labels and offsets (16,384 numbers) are all that can grow, and only so far.
    assert large < small + 300_000 < small + 10 * TEXTS * len(LINE)
