"""The pictures of recorded figures: each is what its figures give, and no text runs over an edge."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks import chart, highlights
from benchmarks.document import load
from benchmarks.svg import text_width

from places import ROOT

RECORDED = sorted((ROOT / "docs" / "benchmarks").glob("*.svg"))
CHARTS = [path for path in RECORDED if path != highlights.PICTURE]


@pytest.mark.parametrize("picture", CHARTS, ids=lambda path: path.name)
def test_recorded_chart_is_that_of_its_figures(picture: Path) -> None:
    assert picture.read_text() == chart.draw(load(picture.with_suffix(".json")))


def test_highlights_are_those_of_the_recorded_figures() -> None:
    assert highlights.PICTURE.read_text() == highlights.draw()


@pytest.mark.parametrize("picture", RECORDED, ids=lambda path: path.name)
def test_recorded_picture_has_no_text_beyond_its_edges(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    texts = root.findall("{*}text")
    assert len(texts) > 5
    for text in texts:
        width = text_width(str(text.text), int(text.attrib["font-size"]))
        left = float(text.attrib["x"]) - {"start": 0.0, "middle": width / 2, "end": width}[text.attrib["text-anchor"]]
        assert left >= 0, text.text
        assert left + width <= float(root.attrib["width"]), text.text
