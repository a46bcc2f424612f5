"""SavedModels that take text: written by `bert_zoo.export`, reloaded by `SavedModelLayer`."""

# Our name of an input -> the name that TF-Hub's transformer encoders give it.
HUB_NAMES = {
    "token_ids": "input_word_ids",
    "padding_mask": "input_mask",
    "segment_ids": "input_type_ids",
}
