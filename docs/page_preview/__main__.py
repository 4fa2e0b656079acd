"""Serve the sample pages on loopback, or take their screenshots.

python -m docs.page_preview [--port 8099]
python -m docs.page_preview --screenshots build/pages [--width 400] [--page endpoint]
"""

from __future__ import annotations

import argparse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from docs.page_preview.pages import named, pages
from docs.page_preview.site import Site


class _Handler(BaseHTTPRequestHandler):
    """Answers from the site of samples."""

    def do_GET(self) -> None:
        found = Site(pages()).answer(self.path)
        self.send_response(found.status)
        for name, value in found.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(found.body)


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description="Show every page with sample data.")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--screenshots", type=Path, help="Folder for the pictures; nothing is served.")
    parser.add_argument("--width", type=int, action="append", help="Of the pictures; default: 1280 and 400.")
    parser.add_argument("--page", default="", choices=["", *named()], help="Only this page.")
    chosen = parser.parse_args()
    if chosen.screenshots is not None:
        from docs.page_preview.browser import take_screenshots  # noqa: PLC0415 - needs the browser

        take_screenshots(chosen.screenshots, tuple(chosen.width or (1280, 400)), chosen.page)
        return
    with ThreadingHTTPServer(("127.0.0.1", chosen.port), _Handler) as server:
        print(f"http://127.0.0.1:{chosen.port}/ shows the sample pages; Ctrl-C ends it")
        server.serve_forever()


if __name__ == "__main__":
    main()
