"""Whether a release could be made now: ``make release-check``. Builds, checks and tries what a user would install.

Wheel and sdist are built as an index would get them, their metadata and long description are checked, and the wheel
is tried in empty environments (``trials.py``).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

from tools.environments import ROOT
from tools.trials import NotReady, run, try_wheel

IN_WHEEL = ("headrace/headrace-connector.jar", "headrace/py.typed", "headrace/cli/template/pyproject.toml.txt")
IN_SDIST = ("README.md", "LICENSE", "CHANGELOG.md", "setup.py", "connector/src/main/java", "src/headrace/__init__.py")


def main() -> int:
    try:
        check()
    except NotReady as reason:
        print(f"not ready: {reason}", file=sys.stderr)
        return 1
    return 0


def check() -> None:
    version = versions_agree(ROOT)
    with tempfile.TemporaryDirectory(prefix="headrace-release-") as name:
        folder = Path(name)
        _say("building sdist and wheel")
        run([sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(_clean_tree(folder))])
        (wheel,), (sdist,) = folder.glob("dist/*.whl"), folder.glob("dist/*.tar.gz")
        _contents(wheel, sdist)
        _say("checking metadata and long description")
        run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)])
        _say("trying the wheel in empty environments, without a Java compiler")
        try_wheel(wheel, version, folder)
        target = ROOT / "dist"
        target.mkdir(exist_ok=True)
        for built in (wheel, sdist):
            shutil.copy(built, target)
            _say(f"ready: dist/{built.name}")


def versions_agree(root: Path) -> str:
    """The version of the project, which changelog and citation must name too. Raises NotReady where they do not."""
    version = str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])
    newest = re.search(r"^## (\S+) ", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if newest is None or newest[1] != version:
        raise NotReady(f"CHANGELOG.md has no section for {version} at its top")
    if f'\nversion: "{version}"\n' not in (root / "CITATION.cff").read_text():
        raise NotReady(f"CITATION.cff is not of version {version}")
    return version


def _clean_tree(folder: Path) -> Path:
    """The committed files and those about to be, so that nothing built or left lying about gets into a release."""
    tree = folder / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def _contents(wheel: Path, sdist: Path) -> None:
    with zipfile.ZipFile(wheel) as zipped:
        names = zipped.namelist()
    if missing := [name for name in IN_WHEEL if name not in names]:
        raise NotReady(f"{wheel.name} lacks {', '.join(missing)}")
    if foreign := [name for name in names if not name.startswith("headrace")]:
        raise NotReady(f"{wheel.name} has what is none of its business: {', '.join(foreign[:5])}")
    with tarfile.open(sdist) as packed:
        inside = [name.partition("/")[2] for name in packed.getnames()]
    if missing := [name for name in IN_SDIST if not any(found.startswith(name) for found in inside)]:
        raise NotReady(f"{sdist.name} lacks {', '.join(missing)}")


def _say(text: str) -> None:
    print(f"-- {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
