"""The pictures of recorded figures: each is what its figures give, and no text runs over an edge."""

from __future__ import annotations

import itertools
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


@pytest.mark.parametrize("picture", RECORDED, ids=lambda path: path.name)
def test_recorded_picture_has_no_text_over_another(picture: Path) -> None:
    boxes = []
    for text in ElementTree.parse(picture).getroot().findall("{*}text"):
        size, bottom = int(text.attrib["font-size"]), float(text.attrib["y"])
        width = text_width(str(text.text), size)
        left = float(text.attrib["x"]) - {"start": 0.0, "middle": width / 2, "end": width}[text.attrib["text-anchor"]]
        boxes.append((left, left + width, bottom - 0.7 * size, bottom, str(text.text)))
    for one, other in itertools.combinations(boxes, 2):
        beside = one[1] <= other[0] or other[1] <= one[0]
        assert beside or one[3] <= other[2] or other[3] <= one[2], f"{one[4]!r} over {other[4]!r}"
