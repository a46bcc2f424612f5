"""Takes the pictures of docs/howto/embed.md: the map of texts that its code makes, in light and dark.

    python tools/site/text_map.py

Needs minilm_l6, umap-learn, and playwright with a Chromium.
"""

import shutil

from charts import ROOT
from playwright.sync_api import sync_playwright

import bert_zoo
from bert_zoo.charts import text_map
from bert_zoo.data import messages

FIGURES = ROOT / "docs" / "figures"
SEARCHED = "password"


def main() -> None:
    texts, intents = messages.load("train")
    vectors = bert_zoo.load("minilm_l6").embed(texts)
    labels = [messages.LABELS[intent] for intent in intents]
    page = text_map(texts, vectors, labels, method="umap")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": 960, "height": 720}, color_scheme=scheme)
            tab.set_content(page)
            tab.locator(".found button", has_text=SEARCHED).first.click()
            tab.locator("main").screenshot(path=FIGURES / f"text_map_{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
