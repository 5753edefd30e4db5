"""Built pages fit a screen and a telephone, and need no network."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.needs import CHROMIUM, PAGES

FILE = Path(__file__).parents[1] / "doc" / "check_layout.py"
spec = importlib.util.spec_from_file_location("check_layout", FILE)
check_layout = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_layout)

TABLE = '<table class="table"><tr>' + "<td>{}</td>" * 3 + "</tr></table>"
PAGE = '<html><body><div class="bd-article">{}</div></body></html>'

pytestmark = [pytest.mark.subprocess, CHROMIUM.mark]


@pytest.fixture
def chromium() -> str:
    return check_layout.find_chromium()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not check_layout.BUILT.exists():
        PAGES.skip()
    with check_layout.serve_pages() as address:
        yield address


@pytest.mark.long
@pytest.mark.parametrize("width", check_layout.WIDTHS)
@pytest.mark.parametrize("page", check_layout.PAGES)
def test_a_page_fits(page: str, width: int, address: str, chromium: str) -> None:
    report = check_layout.measure_page(chromium, address, page, width)
    assert report == {"wide": [], "remote": []}


def test_a_page_that_is_too_wide_is_found(tmp_path: Path, chromium: str, monkeypatch) -> None:
    monkeypatch.setattr(check_layout, "SCREENSHOTS", tmp_path / "screenshots")
    table = TABLE.format(*["w" * 100] * 3)
    script = '<script src="https://example.com/script.js"></script>'
    (tmp_path / "wide.html").write_text(PAGE.format(table + script))
    (tmp_path / "narrow.html").write_text(PAGE.format(TABLE.format("a", "b", "c")))
    with check_layout.serve_pages(tmp_path) as address:
        wide = check_layout.measure_page(chromium, address, "wide", 400)
        narrow = check_layout.measure_page(chromium, address, "narrow", 400)
    assert wide["wide"][0].startswith("the page, table: www")
    assert wide["wide"][1].startswith("table: www")
    assert wide["remote"] == ["https://example.com/script.js"]
    assert narrow == {"wide": [], "remote": []}
    assert (tmp_path / "screenshots" / "wide-400-light.png").stat().st_size > 0
