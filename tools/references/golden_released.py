"""Files of golden cases as they are in circulation: weights, configurations, twins in other formats."""

import collections
import functools
import json
import pathlib
import shutil

import golden_fairseq
import golden_vocabularies as vocabularies
import numpy as np
import safetensors.torch
import torch
from golden_case import Case, Family, position_ids, round_to_half, save_bin
from golden_files import write_lines

# --- config.json ---------------------------------------------------------------------------------

# Of Google's own bert_config.json: no model type, no class, no epsilon.
_BERT_FIELDS = """hidden_size hidden_act initializer_range vocab_size hidden_dropout_prob
    num_attention_heads type_vocab_size max_position_embeddings num_hidden_layers intermediate_size
    attention_probs_dropout_prob""".split()
# What the multilingual, the Chinese and the cased checkpoints have besides.
POOLER_FIELDS = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}


def minimal_config(config: dict, more: str = "") -> dict:
    """The fields of BERT's first releases, and the named ones."""
    return {key: config[key] for key in (*_BERT_FIELDS, *more.split())}


def chosen(keys: str, **added):
    """A function that leaves these keys of a configuration, where it has them, and adds others."""
    kept = keys.split()
    return lambda config: {key: config[key] for key in kept if key in config} | added


def pooler_fields_config(config: dict) -> dict:
    """The fields of the multilingual and Chinese checkpoints, with those of transformers 4."""
    config = {key: value for key, value in config.items() if key != "dtype"}
    return {
        **config,
        **POOLER_FIELDS,
        "_name_or_path": "bert-base-multilingual-cased",
        "gradient_checkpointing": False,
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
        "transformers_version": "4.11.0.dev0",
    }


def verbose_config(config: dict) -> dict:
    """Every field of the base class, as transformers 2 wrote them into fine-tuned checkpoints."""
    told = minimal_config(config, "architectures id2label label2id layer_norm_eps")
    nothing = ("bos_token_id", "eos_token_ids", "finetuning_task")
    no = "do_sample is_decoder output_attentions output_hidden_states torchscript use_bfloat16"
    return {
        **told,
        **dict.fromkeys(nothing),
        **dict.fromkeys(no.split(), False),
        **{"_num_labels": 3, "length_penalty": 1.0, "max_length": 20, "model_type": "bert"},
        **{"num_beams": 1, "num_return_sequences": 1, "output_past": True, "pad_token_id": 0},
        **{"pruned_heads": {}, "repetition_penalty": 1.0, "temperature": 1.0},
        **{"top_k": 50, "top_p": 1.0},
    }


def albert_config(config: dict) -> dict:
    """The config.json of albert-base-v2."""
    more = """architectures bos_token_id classifier_dropout_prob embedding_size eos_token_id
        inner_group_num layer_norm_eps model_type num_hidden_groups pad_token_id"""
    return minimal_config(config, more) | {
        "down_scale_factor": 1,
        "gap_size": 0,
        "net_structure_type": 0,
        "num_memory_blocks": 0,
    }


def roberta_config(config: dict) -> dict:
    tokens = "bos_token_id eos_token_id pad_token_id"
    return minimal_config(config, f"architectures layer_norm_eps model_type {tokens}")


def electra_config(config: dict) -> dict:
    return minimal_config(config, "architectures embedding_size layer_norm_eps model_type")


distilbert_config = chosen(
    """activation architectures attention_dropout dim dropout hidden_dim initializer_range
    max_position_embeddings model_type n_heads n_layers pad_token_id qa_dropout seq_classif_dropout
    sinusoidal_pos_embds vocab_size id2label label2id""",
    tie_weights_=True,
    output_past=True,
)


def mobilebert_config(config: dict) -> dict:
    unsaid = ("dtype", "tie_word_embeddings", "classifier_dropout", "architectures")
    kept = {key: value for key, value in config.items() if key not in unsaid}
    return kept | {"true_hidden_size": config["intra_bottleneck_size"]}


def modernbert_config(config: dict) -> dict:
    """The keys of the released config.json, which transformers 4.47 wrote."""
    ropes = config.pop("rope_parameters")
    del config["layer_types"]
    return config | {
        "global_rope_theta": ropes["full_attention"]["rope_theta"],
        "local_rope_theta": ropes["sliding_attention"]["rope_theta"],
        "gradient_checkpointing": False,
        "layer_norm_eps": 1e-05,
        "position_embedding_type": "absolute",
    }


def longformer_config(config: dict) -> dict:
    """The keys of the released config.json, which transformers 2.9 wrote."""
    more = """architectures attention_window bos_token_id eos_token_id layer_norm_eps model_type
        pad_token_id sep_token_id"""
    return minimal_config(config, more) | {
        "attention_mode": "longformer",
        "ignore_attention_mask": False,
        "gradient_checkpointing": False,
    }


_NAME_OF_LANGUAGE = dict(enumerate(vocabularies.LANGUAGES))
_NUMBER_OF_LANGUAGE = {name: number for number, name in _NAME_OF_LANGUAGE.items()}


def xlm_config(config: dict) -> dict:
    """The config.json of the released checkpoints, with the keys of its first years."""
    keys = """architectures asm attention_dropout causal dropout emb_dim embed_init_std end_n_top
        gelu_activation init_std is_encoder layer_norm_eps mask_index max_position_embeddings
        model_type n_heads n_langs n_layers start_n_top summary_first_dropout summary_type
        sinusoidal_embeddings summary_activation summary_proj_to_labels summary_use_proj unk_index
        use_lang_emb id2label label2id"""
    return chosen(keys)(config) | {
        "n_words": config["vocab_size"],
        **{"bos_index": 0, "eos_index": 1, "pad_index": 2},
        "id2lang": {str(number): name for number, name in _NAME_OF_LANGUAGE.items()},
        "lang2id": _NUMBER_OF_LANGUAGE,
        **{"max_vocab": -1, "min_count": 0, "same_enc_dec": True, "share_inout_emb": True},
    }


xlnet_config = chosen(
    """architectures attn_type bi_data bos_token_id clamp_len d_head d_inner d_model dropout
    end_n_top eos_token_id ff_activation initializer_range layer_norm_eps model_type n_head n_layer
    pad_token_id same_length start_n_top summary_activation summary_last_dropout summary_type
    summary_use_proj vocab_size""",
    mem_len=None,
    reuse_len=None,
    untie_r=True,
    task_specific_params={"text-generation": {"do_sample": True, "max_length": 250}},
)


def gpt_config(config: dict, more: str) -> dict:
    keys = """architectures attn_pdrop embd_pdrop initializer_range model_type layer_norm_epsilon
        n_embd n_head n_layer n_positions resid_pdrop summary_activation summary_first_dropout
        summary_proj_to_labels summary_type summary_use_proj vocab_size"""
    return {key: config[key] for key in f"{keys} {more}".split()} | {
        "n_ctx": config["n_positions"],
        "n_special": 0,
        "predict_special_tokens": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    }


def without_legacy(config: dict) -> dict:
    """Without transformers' switch between DeBERTa's heads, which the released files do not have."""
    return {key: value for key, value in config.items() if key != "legacy"}


def names_tokenizer(name: str):
    """Has config.json name the tokenizer, as the hub's does, by which the family is told from others."""
    return lambda config: config | {"tokenizer_class": name}


# --- Weights -------------------------------------------------------------------------------------


def save_tensors(state: dict[str, torch.Tensor], directory: pathlib.Path) -> None:
    tensors = {name: tensor.clone() for name, tensor in state.items()}
    safetensors.torch.save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def save_sharded(model, directory):
    model.save_pretrained(directory, max_shard_size="50KB")


def save_prefixed(model, directory):
    """A bare encoder under the root `bert.`, as if cut out of a model with heads."""
    save_tensors({f"bert.{name}": value for name, value in model.state_dict().items()}, directory)


def _state_of_2018(model) -> dict[str, torch.Tensor]:
    """The state as the first releases have it, norms with gamma and beta."""
    named = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    state = {}
    for name, tensor in (model.state_dict() | position_ids(model)).items():
        for ours, theirs in named.items():
            name = name.replace(ours, theirs)
        state[name] = tensor
    return state


def save_2018_safetensors(model, directory):
    save_tensors(_state_of_2018(model), directory)


def save_2018_bin(model, directory, zipped=False):
    """Pickles the state: tied tensors share a storage, and one kernel is a transposed view."""
    state = _state_of_2018(model)
    kernel = "bert.encoder.layer.0.intermediate.dense.weight"
    state[kernel] = state[kernel].T.contiguous().T
    save_bin(state, directory, zipped)


def save_with_positions(model, directory):
    """The format before torch 1.6: every tied tensor twice, and the buffer of positions."""
    save_bin(model.state_dict() | position_ids(model), directory)


def save_albert(model, directory):
    """pytorch_model.bin of the hub, with a pooler that not every class has."""
    size = model.config.hidden_size
    pooler = {
        "albert.pooler.weight": torch.full((size, size), 0.5),
        "albert.pooler.bias": torch.full((size,), 0.5),
    }
    save_bin(model.state_dict() | pooler | position_ids(model), directory)


def save_xlm(model, directory):
    positions = torch.arange(model.config.max_position_embeddings)[None]
    state = {**model.state_dict(), "transformer.position_ids": positions}
    save_bin(state, directory, zipped=True)


def without_token_types(model) -> None:
    """fairseq has no table of segments: a zero one says the same."""
    torch.nn.init.zeros_(model.roberta.embeddings.token_type_embeddings.weight)


def half_without_token_types(model) -> None:
    """Values that half precision holds exactly, for a twin stored in it."""
    without_token_types(model)
    round_to_half(model)


# --- Twins in other formats ----------------------------------------------------------------------


def _make_fairseq(family, case, directory, names, dtype, zipped):
    golden_fairseq.write_twin(directory.parent / case.twin, directory, names, dtype, zipped)
    golden_fairseq.write_bpe_files(directory)


make_fairseq_2019 = functools.partial(
    _make_fairseq, names=golden_fairseq.RELEASE_2019, dtype=torch.float16, zipped=False
)
make_fairseq_2021 = functools.partial(
    _make_fairseq, names=golden_fairseq.MAIN_2021, dtype=torch.float32, zipped=True
)

_MPNET_ARGUMENTS = {
    "arch": "mpnet_rel_base",
    "criterion": "masked_permutation_cross_entropy",
    "input_mode": "mpnet",
    "normalize_before": False,
    "pred_prob": 0.15,
    "task": "masked_permutation_lm",
    "use_relative_positions": True,
}
_MPNET_NAMES = {
    "mpnet.": "roberta.",
    ".attention.attn.q.": ".attention.self.query.",
    ".attention.attn.k.": ".attention.self.key.",
    ".attention.attn.v.": ".attention.self.value.",
    ".attention.attn.o.": ".attention.output.dense.",
    ".attention.LayerNorm.": ".attention.output.LayerNorm.",
}


def make_mpnet_fairseq(family: Family, case: Case, directory: pathlib.Path) -> None:
    """In the names of MPNet's own program."""

    def roberta_name(name: str) -> str:
        for theirs, robertas in _MPNET_NAMES.items():
            name = name.replace(theirs, robertas)
        return name

    twin, names = directory.parent / case.twin, golden_fairseq.RELEASE_2019
    of_program = (roberta_name, _MPNET_ARGUMENTS)
    golden_fairseq.write_twin(twin, directory, names, torch.float32, True, *of_program)
    words = vocabularies.BERT
    write_lines(directory / "dict.txt", (f"{word} {n}" for n, word in enumerate(words)))


def make_xlm_program(family: Family, case: Case, directory: pathlib.Path) -> None:
    """The weights of a twin as the authors' program saves them while it trains, with fastBPE's files."""
    twin, special = directory.parent / case.twin, vocabularies.XLM_SPECIAL
    config = json.loads((twin / "config.json").read_text())
    state = safetensors.torch.load_file(twin / "model.safetensors")
    model = collections.OrderedDict(
        (f"module.{name.removeprefix('transformer.')}", tensor) for name, tensor in state.items()
    )
    model["module.pred_layer.proj.weight"] = model["module.embeddings.weight"]
    # "@@" where a word goes on, nothing at its end.
    tokens = vocabularies.XLM[len(special) :]
    words = [*special, *(f"{token}@@".replace("</w>@@", "") for token in tokens)]
    counts = {word: max(0, len(words) - number) for number, word in enumerate(words)}
    counts.update(dict.fromkeys(special, 0))
    sizes = ("emb_dim", "n_heads", "n_layers", "n_langs", "dropout", "attention_dropout", "asm")
    params = {
        **{key: config[key] for key in (*sizes, "gelu_activation", "sinusoidal_embeddings")},
        "share_inout_emb": True,
        "n_words": len(words),
        **{"bos_index": 0, "eos_index": 1, "pad_index": 2, "unk_index": 3, "mask_index": 5},
        "id2lang": _NAME_OF_LANGUAGE,
        "lang2id": _NUMBER_OF_LANGUAGE,
        **{"max_vocab": -1, "min_count": 0, "encoder_only": True, "mlm_steps": [("de", None)]},
        # What a training leaves there.
        "pred_probs": torch.tensor([0.8, 0.1, 0.1]),
        "mono_probs": np.array([0.5, 0.3, 0.2]),
        "para_dataset": {("de", "en"): {"train": ("train.de-en.de.pth", "train.de-en.en.pth")}},
    }
    torch.save(
        {
            **{"epoch": 3, "n_total_iter": 1200, "best_metrics": {"_valid_mlm_ppl": np.float64(9)}},
            "model": model,
            "dico_id2word": dict(enumerate(words)),
            "dico_word2id": {word: number for number, word in enumerate(words)},
            "dico_counts": counts,
            "params": params,
        },
        directory / "mlm_defren.pth",
        _use_new_zipfile_serialization=False,
    )
    merges = enumerate(vocabularies.XLM_MERGES)
    write_lines(directory / "codes_defren", (f"{merge} {1000 - place}" for place, merge in merges))
    counted = (f"{word} {counts[word]}" for word in words[len(special) :])
    write_lines(directory / "vocab_defren", counted)
    shutil.copy(twin / "io.npz", directory / "io.npz")
