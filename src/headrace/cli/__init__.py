"""The ``headrace`` command. Needs the extra ``cli``; ``main`` says so where that is missing."""

from __future__ import annotations

import sys

from headrace.optional import missing


def main() -> None:
    """Run the command line of this process. Ends the process with status 1 where typer or rich is not installed."""
    try:
        from headrace.cli.app import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich"):
            raise
        sys.exit(str(missing(package, "The headrace command")))
    app()
