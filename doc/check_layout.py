"""Look at built pages in a headless Chromium: screenshots, and what is wider than its column.

``python doc/check_layout.py`` writes screenshots of ten pages, at two widths, light and dark, to
``doc/_build/screenshots``, and fails if a page scrolls sideways, if a table is cut off, or if a
page asks a network for a file. ``--page`` names other pages.
"""

import argparse
import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DOC = Path(__file__).resolve().parent
BUILT = DOC / "_build" / "html"
SCREENSHOTS = DOC / "_build" / "screenshots"
PROGRAMS = ("chromium", "google-chrome")
WIDTHS = (1280, 400)
PAGES = (
    "index",
    "start/five-minutes",
    "how-to/callbacks-and-gpus",
    "how-to/external-callbacks",
    "how-to/from-catalyst",
    "how-to/differences-from-catalyst",
    "concepts/circuits",
    "concepts/devices",
    "reference/callbacks",
    "reference/callback-transformations",
)

# The page is shown in a frame of the same origin, as wide as a screen. A window cannot be as
# narrow: in Chromium it has 500 pixels at least.
FRAME = """<!doctype html>
<html><body style="margin:0">
<script>
localStorage.setItem("mode", "{theme}");
localStorage.setItem("theme", "{theme}");
</script>
<iframe id="page" src="/{page}.html" style="border:0;width:{width}px;height:{height}px"></iframe>
<pre id="report"></pre>
<script>
const frame = document.getElementById("page");
frame.addEventListener("load", () => setTimeout(() => {{
  const view = frame.contentDocument, shown = view.documentElement;
  const describe = (item) => item.tagName.toLowerCase() + ": "
    + item.textContent.trim().replace(/\\s+/g, " ").slice(0, 60);
  const hides = (item) => item.scrollWidth > item.clientWidth + 1;
  const scrolls = (item) => {{
    for (let box = item.parentElement; box && box !== view.body; box = box.parentElement)
      if (getComputedStyle(box).overflowX !== "visible") return true;
    return false;
  }};
  const wide = [];
  if (shown.scrollWidth > shown.clientWidth + 1) {{
    const past = [...view.querySelectorAll("body *")]
      .filter((item) => item.getBoundingClientRect().right > shown.clientWidth + 1)
      .filter((item) => !scrolls(item));
    wide.push(["the page", ...past.slice(0, 3).map(describe)].join(", "));
  }}
  for (const table of view.querySelectorAll(".bd-article table")) {{
    const column = table.closest(".bd-article").getBoundingClientRect();
    const box = table.getBoundingClientRect();
    if (box.right > column.right + 1 || hides(table.parentElement)) wide.push(describe(table));
  }}
  const remote = [...view.querySelectorAll("script[src], link[rel=stylesheet], img[src]")]
    .map((item) => item.src || item.href)
    .filter((address) => new URL(address).origin !== location.origin);
  const report = JSON.stringify({{wide, remote}});
  document.getElementById("report").textContent = "REPORT" + report + "END";
}}, 500));
</script>
</body></html>
"""


def find_chromium() -> str | None:
    """Return the path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serve the built pages, and frames around them."""

    def log_message(self, *_: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:  # noqa: N802
        """Answer `/frame?page=...&width=...` with a frame, and all else with a file."""
        parts = urllib.parse.urlsplit(self.path)
        if parts.path != "/frame":
            super().do_GET()
            return
        options = {
            name: html.escape(v[0]) for name, v in urllib.parse.parse_qs(parts.query).items()
        }
        body = FRAME.format(**options).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve_pages(folder: Path = BUILT) -> Iterator[str]:
    """Serve a folder of pages on a free port, and yield the address."""
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def measure_page(
    chromium: str, address: str, page: str, width: int, theme: str = "light", height: int = 2400
) -> dict[str, list[str]]:
    """Open a page, write a screenshot, and return what is too wide and what is remote.

    Args:
        chromium: path of the browser.
        address: of the server, from `serve_pages`.
        page: name of the page, without its ending.
        width: of the screen, in pixels.
        theme: "light" or "dark".
        height: of the screenshot, in pixels.

    Returns:
        lists under the names "wide" and "remote".
    """
    options = {"page": page, "width": width, "height": height, "theme": theme}
    url = f"{address}/frame?{urllib.parse.urlencode(options)}"
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    picture = SCREENSHOTS / f"{page.replace('/', '-')}-{width}-{theme}.png"
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium,
            "--headless=new",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            f"--user-data-dir={profile}",
            f"--window-size={max(width, 500)},{height}",
            "--virtual-time-budget=8000",
            # In a container, where root builds the pages.
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
        ]
        subprocess.run([*command, f"--screenshot={picture}", url], check=True, capture_output=True)
        done = subprocess.run([*command, "--dump-dom", url], check=True, capture_output=True)
    found = re.search(r"REPORT(\{.*?\})END</pre>", done.stdout.decode(), re.S)
    if found is None:
        raise RuntimeError(f"{page}: Chromium did not report, expected a measured page")
    return json.loads(html.unescape(found[1]))


def main() -> int:
    """Measure the pages, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="append", help="name of a page (several times for more)")
    parser.add_argument("--dark", action="store_true", help="write dark screenshots too")
    args = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print("no Chromium is installed, so the layout is not checked: apt-get install chromium")
        return 0
    failed = 0
    with serve_pages() as address:
        for page in args.page or PAGES:
            for width in WIDTHS:
                for theme in ("light", "dark") if args.dark else ("light",):
                    report = measure_page(chromium, address, page, width, theme)
                    for kind, items in report.items():
                        for item in items:
                            failed += 1
                            print(f"{page} at {width} px, {kind}: {item}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
