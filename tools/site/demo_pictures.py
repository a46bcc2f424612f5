"""Draws the page of `bert_zoo demo` in light and dark: docs/figures/demo_light.png and demo_dark.png.

    bert_zoo finetune --model minilm_l6 --task messages
    python tools/site/demo_pictures.py runs/minilm_l6-messages

Needs playwright with a Chromium.
"""

import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from bert_zoo.cli.demo import Demo, load
from bert_zoo.cli.local_server import Server

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
SIZE = {"width": 700, "height": 600}


def draw(run: str) -> None:
    with Server("127.0.0.1", 0) as server, sync_playwright() as playwright:
        server.demo = Demo(load(run, None), run)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(server.address)
            page.get_by_role("button", name="Answer").click()
            page.wait_for_selector(".result .state")
            page.screenshot(path=FIGURES / f"demo_{scheme}.png", full_page=True)
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    draw(*sys.argv[1:])
