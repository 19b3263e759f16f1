"""The site: Sphinx makes HTML of all pages, without network, to be searched and read from a disk."""

import hashlib
import inspect
import io
import posixpath
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from pydoc import locate
from types import ModuleType
from typing import Any

from reporter.app.docs.search import write_search
from reporter.core.artifacts import NAME_DIGITS, Artifact, bytes_in, make_room
from reporter.core.errors import ReporterError
from reporter.core.files import user_cache, writing
from reporter.core.imports import optional
from reporter.core.outputs import replacing
from reporter.core.version import VERSION

HERE = Path(__file__).resolve().parent
SHIPPED = HERE / "site"
"""The site in an installed package; a checkout has its sources instead."""
ROOT = HERE.parents[2]
# Pages that a checkout keeps elsewhere, and their names on the site. An installed package has them beside this file.
_ELSEWHERE = {"CONTRIBUTING.md": "contributing.md", "studies/quickstart.md": "first-study.md"}

_SETTINGS: dict[str, Any] = {
    "project": "reporter",
    "html_title": f"reporter {VERSION}",
    "version": VERSION,
    "release": VERSION,
    "extensions": ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"],
    "exclude_patterns": ["parts"],
    "myst_enable_extensions": ["deflist"],
    "myst_heading_anchors": 3,
    "html_theme": "furo",
    "html_copy_source": False,  # its pages are in the repository
    "html_static_path": [str(HERE / "static")],
    "html_css_files": ["pictures.css"],
    "html_use_index": False,
    "html_domain_indices": False,
    "autodoc_default_options": {"members": True, "exclude-members": "model_config"},
    "autodoc_member_order": "bysource",
    "autodoc_typehints": "signature",
    "smartquotes": False,
    "default_role": "code",
}


def site(tell: Callable[[str], None] = lambda text: None) -> Path:
    """Return the first page of the site: that of the package, or made now and kept in the user's cache.

    Args:
        tell: is called with a line before pages are made, which takes a while.

    Raises:
        ReporterError: it has to be made, and Sphinx is not there, or the user's cache cannot be written.
    """
    if SHIPPED.is_dir():
        return SHIPPED / "index.html"
    made = Artifact(user_cache() / "docs" / _state(), "the pages are made again")
    if not made.is_intact():
        tell("making the pages, about half a minute; the next call is instant")
    with writing(made.folder):
        made.made(_make, "the pages of the documentation", tell)
        make_room(made.folder.parent, bytes_in(made.folder))  # those of other versions go
    return made.folder / "index.html"


def build(folder: Path) -> Path:
    """Write the site into a folder, in place of what was written there before, and return its first page.

    Raises:
        UsageError: the folder has files of others.
        ReporterError: Sphinx is not there, a page has a mistake, or the folder cannot be written.
    """
    with replacing(folder, alone=True) as fresh:
        if SHIPPED.is_dir():
            for file in filter(Path.is_file, SHIPPED.rglob("*")):
                (fresh / file.relative_to(SHIPPED)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, fresh / file.relative_to(SHIPPED))
        else:
            _make(fresh)
    return folder / "index.html"


def write_sources(folder: Path) -> None:
    """Write all pages into a folder, in MyST's Markdown."""
    from reporter.app.docs.reference import reference_pages

    written = HERE / "pages"
    pages = {str(path.relative_to(written)): path.read_text("utf-8") for path in written.rglob("*.md")}
    pages |= reference_pages()
    for place, path in _elsewhere().items():
        pages[_ELSEWHERE[place]] = _relinked(path.read_text("utf-8"))
    for heading, text in _sections(pages["contributing.md"]).items():  # other pages include some, such as words.md
        pages[f"parts/contributing/{re.sub('[^a-z0-9]+', '-', heading.lower()).strip('-')}.md"] = text
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    shutil.copytree(written / "pictures", folder / "pictures")


def _elsewhere() -> dict[str, Path]:
    beside = {place: HERE / name for place, name in _ELSEWHERE.items()}
    return {place: path if path.is_file() else ROOT / place for place, path in beside.items()}


def _sections(text: str) -> dict[str, str]:
    """Return the text under each heading of the second level of a page."""
    return dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def _relinked(text: str) -> str:
    text = text.replace("](../reporter/app/docs/pages/", "](")

    def link(match: re.Match[str]) -> str:
        label, to = match.groups()
        page = to if "://" in to else _ELSEWHERE.get(to) or to.removeprefix("reporter/app/docs/pages/")
        return f"[{label}]({page})" if "://" in page or (page != to or to in _ELSEWHERE) else label

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)\)", link, text)


def _make(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _make_from(Path(folder, "sources"), out)


def _make_from(sources: Path, out: Path) -> None:
    application = optional("sphinx.application", "docs", "building the documentation")
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    write_sources(sources)
    warnings_text = io.StringIO()
    with warnings.catch_warnings(), patch_docutils(), docutils_namespace():
        warnings.simplefilter("ignore")  # what Sphinx and its extensions deprecate is between them
        streams = {"status": None, "warning": warnings_text}
        sphinx = application.Sphinx(sources, None, out, sources.parent / "doctrees", "html", dict(_SETTINGS), **streams)
        sphinx.connect("html-page-context", _share_tree, priority=400)  # before the theme asks for the tree
        for step in ("index_page", "dump_search_index"):  # `write_search` has an index of its own
            setattr(sphinx.builder, step, lambda *_: None)
        sphinx.build()
    if problems := warnings_text.getvalue().strip():
        raise ReporterError(f"the sources of the documentation have mistakes:\n{problems}")
    write_plain(sources, out)
    write_search(out)
    (out / "objects.inv").unlink(missing_ok=True)
    (out / ".buildinfo").unlink(missing_ok=True)
    shutil.rmtree(out / "_sources", ignore_errors=True)


def _share_tree(app: Any, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Take a page's tree of all pages from that of the first page: Sphinx takes a third of all time to make them."""
    up = "../" * page.count("/")
    above = {child: parent for parent, children in app.env.toctree_includes.items() for child in children}

    def tree(**options: Any) -> str:
        if not hasattr(app, "tree"):
            app.tree = app.builder._get_local_toctree("index", **options)
        html, entry = re.sub(r'href="(?![a-z]+:)', f'href="{up}', app.tree), page
        while entry in above:
            link = f'"><a class="reference internal" href="{up}{entry}.html"'
            own = '"><a class="current reference internal" href="#"' if entry == page else link
            html, entry = html.replace(link, f" current{own}"), above[entry]
        return html

    context["toctree"] = tree


def _state() -> str:
    checksum = hashlib.sha256()
    pages = [*(HERE / "pages").rglob("*.md"), *_elsewhere().values()]
    beside = [*HERE.glob("*.js"), *(HERE / "static").iterdir(), *(HERE / "pages/pictures").iterdir()]
    for path in sorted([*HERE.parents[1].rglob("*.py"), *beside, *pages]):
        checksum.update(path.read_bytes())
    return checksum.hexdigest()[:NAME_DIGITS]


# Plain Markdown of all pages, and ``llms.txt``, for programs that read the documentation.


_TREE = re.compile(r"^```\{toctree\}\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"^\(([^()\s]+)\)=\n(?=#+ (.*))", re.MULTILINE)


def write_plain(sources: Path, out: Path) -> None:
    """Write ``PAGE.md`` beside each ``PAGE.html``, and ``llms.txt`` with links to all of them.

    Args:
        sources: the pages in MyST's Markdown.
        out: the folder of the site.
    """
    pages = {path.relative_to(sources).as_posix(): path.read_text("utf-8") for path in sorted(sources.rglob("*.md"))}
    shown = {name: text for name, text in pages.items() if not name.startswith("parts/")}
    labels = {label: (name, heading) for name, text in shown.items() for label, heading in _LABEL.findall(text)}
    plain = {name: _plain_page(name, text, pages, labels) for name, text in shown.items()}
    for name, text in plain.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, "utf-8")
    shutil.copytree(sources / "pictures", out / "pictures")
    (out / "llms.txt").write_text(_llms(shown, plain), "utf-8")


def _plain_page(name: str, text: str, pages: dict[str, str], labels: dict[str, tuple[str, str]]) -> str:
    """Return a page without the directives, labels and definition lists that only MyST reads."""

    def link(match: re.Match[str]) -> str:
        page, heading = labels.get(match[1], (name, ""))
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") or match[1]
        return f"]({'' if page == name else posixpath.relpath(page, posixpath.dirname(name))}#{slug})"

    text = re.sub(r"^```\{include\} (\S+)\n```", lambda match: pages[match[1]].strip(), text, flags=re.MULTILINE)
    text = re.sub(r"^```\{eval-rst\}\n(.*?)^```", lambda match: _names(match[1]), text, flags=re.MULTILINE | re.DOTALL)
    text = _LABEL.sub("", _TREE.sub("", text))
    text = re.sub(r"^(\S.*)\n: +(.*)\n\n(?=\S.*\n: )", r"- \1: \2\n", text, flags=re.MULTILINE)
    text = re.sub(r"^(\S.*)\n: +", r"- \1: ", text, flags=re.MULTILINE)
    text = re.sub(r"\]\(#([^)\s]+)\)", link, text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _names(directives: str) -> str:
    """Return signatures and docstrings of what Sphinx's autodoc is asked for."""
    parts = []
    for path in re.findall(r"^\.\. auto\w+:: (\S+)", directives, re.MULTILINE):
        value = locate(path)
        names = vars(value) if isinstance(value, type | ModuleType) else ()
        inside = {key: getattr(value, key) for key in names if _public(key, getattr(value, key, None), value)}
        parts += [_entry(path, value, "##")] if not isinstance(value, ModuleType) else [inspect.getdoc(value) or ""]
        parts += [_entry(f"{path}.{key}", member, "###") for key, member in inside.items()]
    return "\n\n".join(parts)


def _public(key: str, member: object, owner: object) -> bool:
    is_elsewhere = isinstance(owner, ModuleType) and not str(getattr(member, "__module__", "")).startswith(
        owner.__name__
    )
    is_documented = (inspect.isroutine(member) or isinstance(member, property)) and bool(inspect.getdoc(member))
    return is_documented and not key.startswith("_") and not is_elsewhere


def _entry(path: str, value: object, level: str) -> str:
    try:
        called = f"{path.rsplit('.', 1)[1]}{inspect.signature(value)}" if callable(value) else path
    except ValueError:
        called = path
    called = re.sub(r" at 0x[0-9a-f]+", "", called)  # which differs from process to process
    return f"{level} {path}\n\n```text\n{called}\n\n{inspect.getdoc(value) or ''}\n```"


def _llms(sources: dict[str, str], plain: dict[str, str]) -> str:
    """Return the index of all pages by the convention of llms.txt: title, summary, sections of links."""
    title, lead = _opening(plain["index.md"])
    lines, listed = [f"# {title}", "", f"> {lead}"], {"index.md"}

    def section(heading: str, names: list[str]) -> None:
        lines.extend(["", f"## {heading}", ""])
        for name in names:
            label, summary = _opening(plain[name])
            lines.append(f"- [{label}]({name})" + f": {summary}" * bool(summary))
        listed.update(names)
        for name in names:
            for inner in _TREE.findall(sources[name]):
                section(_opening(plain[name])[0], _entries(inner, posixpath.dirname(name)))

    for tree in _TREE.findall(sources["index.md"]):
        caption = re.search(r"^:caption: (.*)$", tree, re.MULTILINE)
        section(caption[1] if caption else "Pages", _entries(tree, ""))
    if rest := [name for name in plain if name not in listed]:
        section("Optional", rest)
    return "\n".join(lines) + "\n"


def _entries(tree: str, folder: str) -> list[str]:
    lines = (line.strip() for line in tree.splitlines())
    return [posixpath.join(folder, f"{line}.md") for line in lines if line and not line.startswith(":")]


def _opening(text: str) -> tuple[str, str]:
    """Return the title of a page and the first sentence below it."""
    heading, _, body = text.partition("\n")
    body = re.sub(r"^```.*?^```$|^\*\*.*?\*\* ", "", body, flags=re.MULTILINE | re.DOTALL)  # code; a bold title
    paragraphs = (paragraph for paragraph in body.split("\n\n") if re.match(r"\s*[\w*`‖]", paragraph))
    first = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(next(paragraphs, "").split()))
    return heading.lstrip("# "), re.split(r"(?<=[.?!:])\s+(?=[A-Z`])", first)[0].rstrip(":")
