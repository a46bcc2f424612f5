"""Exports: SavedModels, LiteRT and ONNX files, written by `bert_zoo.export`; and `SavedModelLayer`."""

# Our name of an input -> its name in TF-Hub's transformer encoders.
HUB_NAMES = {
    "token_ids": "input_word_ids",
    "padding_mask": "input_mask",
    "segment_ids": "input_type_ids",
}
