"""What a release is made of agrees with itself: versions, citation, issue templates, the check's own findings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from tools import release_check, trials

from places import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_newest_section_of_the_changelog_is_of_this_version() -> None:
    newest = re.findall(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[0]
    assert newest[0] == VERSION


def test_every_section_of_the_changelog_has_a_version_and_a_date() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)", heading) for heading in headings)


def test_citation_is_of_this_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"], citation["type"]) == (VERSION, "Apache-2.0", "software")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_issue_template_is_a_form(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
    else:
        assert {"name", "description", "body"} <= form.keys()
        assert all({"type", "id", "attributes"} <= field.keys() for field in form["body"])


def test_issue_templates_are_found() -> None:
    assert [path.name for path in TEMPLATES] == ["bug.yml", "config.yml", "feature.yml"]


def test_release_check_versions_agree_here() -> None:
    assert release_check.versions_agree(ROOT) == VERSION


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("CHANGELOG.md", f"## {VERSION} ", "## 0.0.1 ", "CHANGELOG.md has no section"),
        ("CITATION.cff", f'version: "{VERSION}"', 'version: "0.0.1"', "CITATION.cff is not of version"),
    ],
)
def test_release_check_versions_that_differ_are_named(
    tmp_path: Path, file: str, before: str, after: str, message: str
) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md", "CITATION.cff"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / file).write_text((ROOT / file).read_text().replace(before, after))
    with pytest.raises(release_check.NotReady, match=message):
        release_check.versions_agree(tmp_path)


def test_release_check_tries_the_lines_of_the_readme_and_every_older_spark() -> None:
    found = trials.trials((ROOT / "README.md").read_text())
    assert [(one.spark, one.extras, one.besides) for one in found] == [
        ("4.3", "[cli,spark]", ()),
        ("4.3", "[cli,spark,java]", ()),
        ("4.0", "", ("pyspark==4.0.*",)),
        ("4.1", "[cli]", ("pyspark==4.1.*",)),
        ("4.2", "", ("pyspark==4.2.*",)),
    ]


def test_release_check_readme_without_a_line_to_install_is_not_ready() -> None:
    assert trials.readme_extras("$ pip install 'headrace[all]'  # so\n") == ["[all]"]
    with pytest.raises(trials.NotReady, match="no line that installs"):
        trials.readme_extras("pip install headrace")


@pytest.mark.parametrize(("extras", "left"), [("[cli]", ["java", "sh"]), ("[cli,java]", ["sh"])])
def test_release_check_environment_has_commands_but_no_compiler_and_one_java(
    extras: str, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("java", "javac", "jar", "sh"):
        (tools / name).write_text("")
    monkeypatch.setenv("PATH", f"{tools}:/nowhere")
    monkeypatch.setenv("PYTHONPATH", "here")
    monkeypatch.setenv("JAVA_HOME", "there")
    absent = trials.Trial("one", "4.3", extras).absent_commands
    environment = trials.environment_without(absent, tmp_path / "bin")
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == left
    assert environment["PATH"] == str(tmp_path / "bin")
    assert not {"PYTHONPATH", "JAVA_HOME"} & environment.keys()
