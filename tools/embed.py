"""`bert_zoo embed`, run from a source tree; the program is bert_zoo/cli/embed.py."""

from bert_zoo.__main__ import main

if __name__ == "__main__":
    main("embed")
