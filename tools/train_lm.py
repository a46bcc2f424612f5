"""`bert_zoo train_lm`, run from a source tree; the program is bert_zoo/cli/train_lm.py."""

from bert_zoo.__main__ import main

if __name__ == "__main__":
    main("train_lm")
