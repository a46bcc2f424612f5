"""`bert_zoo list`, run from a source tree; the program is bert_zoo/cli/list.py."""

from bert_zoo.__main__ import main

if __name__ == "__main__":
    main("list")
