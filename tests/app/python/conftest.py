"""A study that takes seconds, and its model."""

MODEL = {"recipe": {"architecture": "gpt2", "layers": 2, "width": 16, "heads": 2, "train_on": "c", "steps": 0}}
SHARE = {"metric": "anisotropy.top_variance_share", "model": "small", "layer": "last"}
STUDY = {"study": "look", "models": {"small": MODEL}, "metrics": ["anisotropy"]}
STUDY |= {"corpora": {"c": {"generate": "grammar", "texts": 260, "words": [5, 12]}}}
STUDY |= {"claims": {"uneven": {"says": "More than <none> of it.", "value": SHARE, "above": 0.0}}}
