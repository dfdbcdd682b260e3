"""A real browser: Chromium, found or installed, opens pages of a folder and tells what it sees.

It loads a page of ours from a server of this process, which shows one page after another in a frame of the wanted
width and sends back what it measured there.
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import system_packages

_SECONDS = 90.0
_CHECKER = """<!doctype html><body><script>
const longestLine = (code) => {
  const lines = code.innerText.split("\\n");
  return lines.reduce((longest, line) => line.length > longest.length ? line : longest, "");
};
async function look(page) {
  const frame = document.createElement("iframe");
  frame.style.cssText = "border: 0; height: 900px; width: WIDTHpx";
  const loaded = new Promise((done) => { frame.onload = done; });
  frame.src = page;
  document.body.append(frame);
  await loaded;
  const shown = frame.contentDocument;
  await shown.fonts.ready;
  const code = [...shown.querySelectorAll("pre, pre > code")];
  const pictures = [...shown.querySelectorAll("article img:not([loading])")];
  const seen = {
    page: page,
    title: shown.title,
    code_blocks: shown.querySelectorAll("pre").length,
    cut_off: code.filter((one) => one.scrollWidth > one.clientWidth && one.clientWidth).map(longestLine),
    lost_pictures: pictures.filter((one) => !one.naturalWidth).map((one) => one.src),
    pictures: pictures.length,
  };
  frame.remove();
  return seen;
}
(async () => {
  const seen = [];
  for (const page of PAGES) seen.push(await look(page));
  await fetch("/seen", {method: "POST", body: JSON.stringify(seen)});
})();
</script></body>"""


@dataclass(frozen=True)
class SeenPage:
    """``cut_off`` has the longest line of each block of code that is wider than its column."""

    page: str
    title: str
    code_blocks: int
    cut_off: list[str]
    pictures: int
    lost_pictures: list[str]


def look_at(folder: Path, pages: Sequence[str], width: int) -> list[SeenPage]:
    """What each page of the folder looks like in a window of that width. Raises RuntimeError if nothing comes back."""
    answers: queue.Queue[list[dict[str, Any]]] = queue.Queue()
    checker = _CHECKER.replace("WIDTH", str(width)).replace("PAGES", json.dumps(list(pages)))
    handler = partial(_Handler, checker, answers, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, tempfile.TemporaryDirectory() as profile:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += ["--no-first-run", f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/checker"]
        with open(Path(profile) / "log", "w+") as log:
            browser = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                return [SeenPage(**seen) for seen in answers.get(timeout=_SECONDS)]
            except queue.Empty:
                log.seek(0)
                raise RuntimeError(f"Chromium told nothing within {_SECONDS:.0f} s:\n{log.read()}") from None
            finally:
                browser.terminate()
                browser.wait(30)
                server.shutdown()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, checker: str, answers: queue.Queue[list[dict[str, Any]]], *rest: Any, **named: Any) -> None:
        self.checker, self.answers = checker, answers
        super().__init__(*rest, **named)

    def do_GET(self) -> None:
        if self.path != "/checker":
            super().do_GET()
            return
        body = self.checker.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the server tells of every page."""


def _chromium() -> str:
    for is_missing in (False, True):
        if is_missing:
            system_packages.install("chromium")
        if found := shutil.which("chromium"):
            return found
    raise RuntimeError("no chromium on the PATH although apt-get installed the package 'chromium'")
