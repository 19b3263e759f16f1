"""Plain Markdown of all pages, and ``llms.txt``, for programs that read the documentation."""

import inspect
import posixpath
import re
from pathlib import Path
from pydoc import locate
from types import ModuleType

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
    plain = {name: _plain(name, text, pages, labels) for name, text in shown.items()}
    for name, text in plain.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, "utf-8")
    (out / "llms.txt").write_text(_llms(shown, plain), "utf-8")


def _plain(name: str, text: str, pages: dict[str, str], labels: dict[str, tuple[str, str]]) -> str:
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
        parts += [_entry(path, value, "###")] if not isinstance(value, ModuleType) else [inspect.getdoc(value) or ""]
        parts += [_entry(f"{path}.{key}", member, "####") for key, member in inside.items()]
    return "\n\n".join(parts)


def _public(key: str, member: object, owner: object) -> bool:
    home = owner.__name__ if isinstance(owner, ModuleType) else ""
    inside = not home or str(getattr(member, "__module__", "")).startswith(home)
    return (
        not key.startswith("_")
        and inside
        and (inspect.isroutine(member) or isinstance(member, property))
        and bool(inspect.getdoc(member))
    )


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
