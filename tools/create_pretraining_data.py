"""`bert_zoo create_pretraining_data`, run from a source tree; the program is bert_zoo/cli/create_pretraining_data.py."""

from bert_zoo.__main__ import main

if __name__ == "__main__":
    main("create_pretraining_data")
