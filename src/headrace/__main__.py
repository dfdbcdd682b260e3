"""``python -m headrace``: the same as the ``headrace`` command."""

from headrace.cli import app

app(prog_name="headrace")
