"""What ctx.explain answers with; driver Python."""

from __future__ import annotations

from headrace.display import html_text


class Explanation(str):
    """What ``ctx.explain`` returns: text that a notebook and the interpreter's prompt show line by line."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_text(self)
