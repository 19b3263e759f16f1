"""Texts and tokens behind the numbers: one probe, one set of pairs, one tuned model, one average. Not a test."""

from reporter.judge.questions.question import Answer, markdown
from reporter.judge.questions.texts import TEXTS, behind, sections

FILES = ("judge/questions/texts.py",)


def shown(**tables):
    """Return the sections' titles, and the answer."""
    return "\n".join([*(section.title for section in sections(tables)), markdown([Answer(TEXTS, tables)], True)])


def asked(only):
    return markdown([behind(lambda sql: [], only)], True)


def probed(*found, best=2, last=3, layers=4):
    """A text a line, each with the layers at which the probe gets it right."""
    of = {"model": "dec", "probe": "mood", "pooling": "mean", "best": best, "last": last, "layers": layers}
    names = {"label": "joy", "at_best": "anger"}
    return [of | names | {"text": i, "begins": f"text {i}", "found": layers} for i, layers in enumerate(found)]


def missed(*ranks, layer=3, off=None):
    """A pair a rank: of the partner among all, at a layer of three."""
    of = {"model": "dec", "partner_set": "halves", "layer": layer, "last": 3, "n": 9, "off": off}
    of |= {"missing": len(ranks) if layer == 3 else 0, "pooling": "mean", "missed": [1, 3]}
    of |= {"begins": "one", "partner": "two", "nearest": "three"}
    return [of | {"pair": i, "rank": rank} for i, rank in enumerate(ranks)]


def moved(*distances):
    of = {"model": "tuned", "corpus": "wiki", "layer": 2, "position": 5, "begins": "a text"}
    return [of | {"rank": i, "token": f"t{i}", "distance": far} for i, far in enumerate(distances, 1)]


def influential(value, without, rows=1, clustered=False):
    of = {"model": "dec", "corpus": "wiki", "metric": "anisotropy", "statistic": "mean_cosine", "layer": 1}
    of |= {"clustered": clustered}
    return [of | {"text": i, "value": value, "value_without": without, "begins": "a text"} for i in range(7, 7 + rows)]


CASES = {
    "shown": [
        (("What the probes get right and wrong",
          "Of 1 texts the probe (mean pooling) gets 0 right at layer 2 and wrong at layer 3, and 0 the"),
         {"probe_texts": probed([0])}, "", {"probe_texts": []}),
        ("Of 3 texts the probe (mean pooling) gets 1 right at layer 2 and wrong at layer 3, and 0 the other way round.",
         {"probe_texts": probed([2], [0, 1, 2, 3], [])}, "and 1 the other way round",
         {"probe_texts": probed([2], [3], [])}),
        ("It gets 1 right at every layer and 1 wrong at every layer.",
         {"probe_texts": probed([2], [0, 1, 2, 3], [])}, "right at layer 3 and wrong at the embedding",
         {"probe_texts": probed([3], [0], best=3)}),
        ("Which partners are missed", {"partner_texts": missed(4)}, "", {"partner_texts": []}),
        ("1 of 9 texts do not find their partner at layer 3 (mean pooling).", {"partner_texts": missed(4)},
         "0 of 9 texts do not find their partner at layer 3 (mean pooling).", {"partner_texts": missed(4, layer=1)}),
        ("its partner", {"partner_texts": missed(4)}, "other text", {"partner_texts": missed(None, off=0.5)}),
        ("nearest instead", {"partner_texts": missed(4)}, "too alike by",
         {"partner_texts": missed(None, off=0.5)}),
        ("Pairs whose cosine at layer 3 (mean pooling) has another rank than their score",
         {"partner_texts": missed(None, off=-0.5)},
         "do not find their partner", {"partner_texts": missed(2)}),
        (("Which tokens moved",
          "The token that is farthest from its state in the base is"),
         {"moved_texts": moved(0.1)}, "", {"moved_texts": []}),
        ("The token that is farthest from its state in the base is `t1` at layer 2: 0.3 times the length of the base's",
         {"moved_texts": moved(0.3, 0.1)}, "farthest from its state in the base is `t2`",
         {"moved_texts": moved(0.1, 0.3)}),
        (("Which texts averages rest on",
          "rests on text 7 most: it is 0.50, and without this text about 0.60"),
         {"text_influences": influential(0.5, 0.6)}, "", {"text_influences": []}),
        ("at layer 1 rests on text 7 most: it is 0.50, and without this text about 0.60 (20 % more).",
         {"text_influences": influential(0.5, 0.6)}, "about 0.40 (20 % less).",
         {"text_influences": influential(0.5, 0.4)}),
        # a slope says no number far away, such as one below 0
        ("and without this text less than half of it.", {"text_influences": influential(0.5, -1.0)},
         "and without this text more than 1.5 times as much.", {"text_influences": influential(0.5, 2.5)}),
        ("and without this text less than half of it.", {"text_influences": influential(0.5, 0.2)},
         "and without this text about 0.30 (40 % less).", {"text_influences": influential(0.5, 0.3)}),
        ("rests on text 7 most: it is 0.50, and without this text about", {"text_influences": influential(0.5, 0.6)},
         "rests on the cluster of text 7 most: it is 0.50, and without this cluster about",
         {"text_influences": influential(0.5, 0.6, clustered=True)}),
        ("50 more rows are in the table of the database.", {"text_influences": influential(0.5, 0.6, 250)}, "",
         {"text_influences": influential(0.5, 0.6, 200)}),
    ],
    "asked": [
        ("No texts are kept behind these answers; `layer` and `changed` have some.", {"only": ["sinks"]},
         "Nothing found in the numbers of this study.", {"only": ["layer"]}),
    ],
}  # fmt: skip
