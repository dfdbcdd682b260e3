"""A PATH that has every command of this machine but some."""

from __future__ import annotations

import os
from pathlib import Path


def path_without(folder: Path, *names: str) -> str:
    """Links all commands of the PATH into ``folder``, which is made, but those of these names."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for command in Path(directory).iterdir() if Path(directory).is_dir() else ():
            link = folder / command.name
            if command.name not in names and not link.is_symlink():
                link.symlink_to(command)
    return str(folder)
