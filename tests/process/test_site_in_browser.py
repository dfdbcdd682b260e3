"""The pages of the documentation as a reader sees them, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import SeenPage, look_at
from built_site import build_site

LAPTOP = 1280  # pixels: the narrowest window that has both columns of navigation


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SeenPage]:
    site = build_site(tmp_path_factory.mktemp("site"))
    pages = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html") if page.name != "404.html")
    return {one.page: one for one in look_at(site, pages, LAPTOP)}


@pytest.mark.daily
@pytest.mark.timeout(300)  # Chromium may have to be installed first
def test_site_code_fits_its_column(seen: dict[str, SeenPage]) -> None:
    assert {"index.html", "tutorial.html", "howto/rest-api.html"} <= set(seen)
    assert sum(page.code_blocks for page in seen.values()) > 60
    assert {page.page: page.cut_off for page in seen.values() if page.cut_off} == {}


@pytest.mark.daily
@pytest.mark.timeout(300)
def test_site_pictures_are_shown(seen: dict[str, SeenPage]) -> None:
    assert seen["index.html"].pictures > 0
    assert [page.lost_pictures for page in seen.values() if page.lost_pictures] == []


@pytest.mark.daily
@pytest.mark.timeout(300)
def test_browser_sees_code_that_is_too_wide_and_a_lost_picture(tmp_path: Path) -> None:
    long = "x = " + "1 + " * 100 + "1"
    (tmp_path / "page.html").write_text(f"<pre><code>{long}</code></pre><article><img src='lost.svg'></article>")
    style = "<style>pre { overflow: auto; width: 700px } code { display: block }</style>"
    (tmp_path / "page.html").write_text(style + (tmp_path / "page.html").read_text())
    (page,) = look_at(tmp_path, ["page.html"], LAPTOP)
    assert page.cut_off[0] == long
    assert len(page.lost_pictures) == 1
