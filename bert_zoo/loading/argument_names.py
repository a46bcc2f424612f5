"""What other programs call the arguments of `load`."""

from collections.abc import Collection, Sequence

from bert_zoo.error_text import nearest

# Our name, or where the setting belongs -> other programs' names.
_OTHERS = {
    "max_length": """max_len maxlen max_seq_length max_seq_len max_sequence_length sequence_length seq_length
        seq_len model_max_length max_tokens max_positions max_position_embeddings""",
    "num_classes": "n_classes nb_classes num_class n_labels classes output_dim",
    "labels": "class_names label_names label_list label_map id2label label2id",
    "thresholds": "threshold",
    "dropout": """dropout_rate drop_rate dropout_prob hidden_dropout hidden_dropout_prob
        classifier_dropout resid_pdrop""",
    "attention_dropout": "attention_probs_dropout_prob attention_dropout_rate attn_pdrop",
    "activation": "hidden_act activation_function",
    "mem_len": "mem_length memory_length",
    "dtype": "torch_dtype precision dtype_policy",
    "weights": "pretrained load_weights from_pretrained",
    "task='multi_label_classification'": "multi_label",
    "a part of the name, 'hf://org/repo@revision',": "revision",
    "an argument of model.compile or model.fit": """learning_rate lr optimizer loss metrics epochs
        batch_size""",
}
_OURS = {other: ours for ours, others in _OTHERS.items() for other in others.split()}


def unknown_arguments(names: Sequence[str], known: Collection[str]) -> TypeError:
    """Returns the error for arguments that `load` does not have; it says what they are called here.

    Args:
        names: the unknown arguments.
        known: those of `load`.
    """
    said = (
        f" {name} is {_OURS[name]} here." if name in _OURS else nearest(name, known)
        for name in names
    )
    return TypeError(f"load() has no argument {', '.join(names)}.{''.join(said)}")
