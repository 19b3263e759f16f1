"""What ``import reporter`` offers: that it is all there and typed."""

import ast
from pathlib import Path

import reporter

OFFERED = {
    "Between", "Claim", "Comparable", "Context", "CorpusPart", "Difference", "Field", "Finding", "Kinship",
    "StatisticName", "Measured", "Name", "Numbers", "Observed", "OfCorpus", "OfModel", "Options", "Origin",
    "PairValue", "Part", "Profiles", "Range", "Record", "Reference", "ReporterError", "Results", "SampleOptions",
    "Section", "Selection", "Source", "SourceContext", "SpecError", "Statistic", "StudyFile", "UnderView",
    "UsageError", "Value", "analysis", "at_place", "claim_kind", "column", "corpus_source", "digest", "encode",
    "file_hash", "geometry", "measure", "metric", "of_cell", "open", "pooled", "run", "save_states", "validate",
}  # fmt: skip


def test_these_names_are_public_and_no_others():
    assert len(reporter.__all__) == len(set(reporter.__all__)) and not hasattr(reporter, "runn")
    assert set(reporter.__all__) == OFFERED
    assert set(dir(reporter)) == OFFERED | {"__version__"}
    for name in OFFERED:
        assert getattr(reporter, name).__doc__


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(reporter.__file__).read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    names = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    seen = {f"{node.module}:{one.name}": one.asname for node in names for one in node.names}
    assert seen == {home: name for name, home in reporter._HOMES.items()}
    assert (Path(reporter.__file__).parent / "py.typed").is_file()


def test_no_room_has_the_name_of_a_function():
    # Python puts a room that is imported in the place of what reporter/__init__.py calls so.
    rooms = {path.stem for path in Path(reporter.__file__).parent.iterdir()}
    assert rooms & set(reporter.__all__) == {"geometry"}, "which is the room itself"
