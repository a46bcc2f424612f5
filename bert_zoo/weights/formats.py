"""What belongs to a file format as a whole, whatever the family."""

# Keys that transformers writes into any model's config.json and that change nothing in an encoder:
# bookkeeping, output switches, labels (which the loader reads), settings of training.
HF_BOOKKEEPING = frozenset(
    """
    _attn_implementation_autoset _commit_hash _name_or_path _num_labels architectures attn_implementation
    bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id dtype
    eos_token_id eos_token_ids finetuning_task gradient_checkpointing id2label
    keys_to_ignore_at_inference label2id language model_max_length model_name name name_or_path
    num_labels output_attentions output_hidden_states output_past prefix problem_type return_dict
    sep_token_id task_specific_params tf_legacy_loss tokenizer_class torch_dtype torchscript
    transformers_version use_bfloat16 use_cache
    """.split()
)

# What configurations written by transformers 2 to 4 say about generating text, for any model.
HF_GENERATION = frozenset(
    """
    bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping
    encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id
    forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_scores remove_invalid_values repetition_penalty
    return_dict_in_generate suppress_tokens temperature top_k top_p typical_p
    """.split()
)

# Optimizer slots, counters and loss scales in TF1 checkpoints (Google's, NVIDIA's and Horovod's
# training programs).
TF1_TRAINING_STATE = (
    r"/(adam|lamb)_[mv]$",
    r"/(Adam|LAMB|AdamWeightDecayOptimizer|LAMBOptimizer)(_1)?$",
    r"(^|/)(global_step|beta[12]_power(_\d+)?|good_steps|loss_scale|current_loss_scale)$",
    r"(^|/)_CHECKPOINTABLE_OBJECT_GRAPH$",
)
