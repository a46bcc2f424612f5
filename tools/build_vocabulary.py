"""`bert_zoo build_vocabulary`, run from a source tree; the program is bert_zoo/cli/build_vocabulary.py."""

from bert_zoo.__main__ import main

if __name__ == "__main__":
    main("build_vocabulary")
