"""Markdown as HTML, by markdown-it and its plug-ins."""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

# The attribute of an element that tells the line of the file in which it begins.
LINE = "tercet-line"
_FRONT = re.compile(
    r"(---|\+\+\+)[^\S\n]*\n(?P<content>(?:.*\n){0,1000}?)(?:\1|\.\.\.)[^\S\n]*(?:\n|\Z)"
)
_TITLE = re.compile(
    r"^title\s*[:=]\s*(?P<quote>[\"']?)(?P<title>[^\s>|].*?)(?P=quote)\s*$", re.I | re.M
)
# What is no text: the marks of GitHub's notes, of MyST's targets, of attributes behind a block;
# and templates of Jinja, Liquid and Hugo, which in backticks are what a text is about.
_MARKS = re.compile(
    r"\A\[![A-Za-z]+\](?=\s)|\A\([^()\s]+\)=[^\S\n]*(?=\n|\Z)|"
    r"(?:\A|\s)\{:?\s*[#.][^{}\n]*\}\s*\Z|"
    r"(?<!`)(?:\{\{[^{}]*+\}\}|\{%(?:[^%]|%(?!\})){0,300}+%\}|\{#(?:[^#]|#(?!\})){0,300}+#\})"
)
# Of MDX: modules, and components' tags.
_MODULE = re.compile(r"(?:import|export)\s")
_COMPONENT = re.compile(r"</?[A-Z][^<>`]*+>|<>|</>")
# A fence that holds Markdown: MyST's directives, but for those that hold code, and three colons.
_DIRECTIVE = re.compile(
    r"\{?(?!(?:code[\w-]*|math|mermaid|toctree|raw|include|literalinclude|eval-rst|contents|dot|"
    r"csv-table|r|python|julia|bash|sh|sql|js|ojs)(?![\w:-]))[\w:-]+\}?\s*(?P<title>(?!\S+\.\w+$).*)"
)
_OPTIONS = re.compile(r"(?:[^\S\n]*:[\w-]+:.*\n)*|---\n(?:.*\n)*?---\n")
_DEEP = 20  # directives within each other
# What nothing closes opens nothing.
_OPENS = re.compile(r"`{3,}|~{3,}|<!--")
_TRIES = 5


def html_of(text: str, mdx: bool = False, first: int = 1) -> str:
    """The text as HTML, each block with its `LINE`; front matter leaves its title.

    mdx: whether it has components. first: the number of its first line.
    """
    title = ""
    if front := _FRONT.match(text):
        found = _TITLE.search(front["content"])
        title = f"<title>{escape(found['title'])}</title>" if found else ""
        text = "\n" * front[0].count("\n") + text[front.end() :]
    return title + _html(text, mdx, first)


def _html(text: str, mdx: bool, first: int, depth: int = 0) -> str:
    lines = text.split("\n")
    env = {"mdx": mdx, "first": first, "depth": depth}
    parser = _parser()
    for _ in range(_TRIES):
        tokens = parser.parse("\n".join((*lines, "")), env)
        opened = [token.map for token in tokens if token.map is not None and _is_open(token)]
        if not opened:
            break
        for start, end in opened:
            lines[start:end] = [_OPENS.sub("", line) for line in lines[start:end]]
    return str(parser.renderer.render(tokens, parser.options, env))


def _is_open(token: Token) -> bool:
    """Whether nothing closes a fence or a comment, which then lasts to the end."""
    if token.type == "html_block":
        return "<!--" in token.content[:8] and "-->" not in token.content
    start, end = token.map or (0, 0)
    return token.type == "fence" and token.content.count("\n") == end - start - 1


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])
    for plugin in (admon_plugin, colon_fence_plugin, deflist_plugin, footnote_plugin):
        parser.use(plugin)
    parser.use(myst_role_plugin)
    # A footnote stays where it is written, whether or not anything refers to it.
    parser.disable(["footnote_tail", "footnote_inline"])
    for name in ("footnote_ref", "footnote_reference_open", "footnote_reference_close"):
        parser.add_render_rule(name, lambda *given: "")
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("colon_fence", _fence)
    parser.add_render_rule("myst_role", _role)
    parser.core.ruler.after("block", "tercet", _prepare)
    return parser


def _prepare(state: StateCore) -> None:
    """Tells blocks their lines, and takes out of their texts what is none."""
    for token in state.tokens:
        if token.map is not None:
            token.attrSet(LINE, str(state.env["first"] + token.map[0]))
        if token.type in ("inline", "html_block"):
            token.content = _MARKS.sub("", token.content)
            if state.env["mdx"]:
                module = _MODULE.match(token.content)
                token.content = "" if module else _COMPONENT.sub("", token.content)


def _fence(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    info = token.info.strip()
    directive = _DIRECTIVE.match(info) if token.markup[0] == ":" or info[:1] == "{" else None
    if directive is None or env["depth"] == _DEEP:
        return str(renderer.fence(tokens, at, options, env))
    settings = _OPTIONS.match(token.content)
    behind = settings.end() if settings else 0
    first = env["first"] + (token.map or [0])[0] + 1 + token.content.count("\n", 0, behind)
    body = _html(token.content[behind:], env["mdx"], first, env["depth"] + 1)
    return f'<p {LINE}="{first - 1}">{escape(directive["title"])}</p>{body}'


def _role(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """A role's text, without what it leads to."""
    return escape(tokens[at].content.strip("`").partition(" <")[0])
