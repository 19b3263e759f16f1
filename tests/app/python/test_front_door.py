"""What ``import reporter`` offers: that it is all there and typed."""

import ast
from pathlib import Path

import reporter


def test_every_public_name_is_there_documented_and_seen_by_type_checkers():
    names = set(reporter.__all__)
    assert len(reporter.__all__) == len(names) > 50 and not hasattr(reporter, "runn")
    assert set(dir(reporter)) == names | {"__version__"}
    assert all(getattr(reporter, name).__doc__ for name in names)
    tree = ast.parse(Path(reporter.__file__).read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    seen = {f"{node.module}:{one.name}": one.asname for node in imports for one in node.names}
    assert seen == {home: name for name, home in reporter._HOMES.items()}
    folder = Path(reporter.__file__).parent
    assert (folder / "py.typed").is_file()
    # Python puts a room that is imported in the place of what reporter/__init__.py calls so.
    assert {path.stem for path in folder.iterdir()} & names == {"geometry"}, "which is the room itself"
