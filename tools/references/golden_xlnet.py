"""The golden cases of XLNet."""

import dataclasses
import pathlib

import numpy as np
import sentencepiece
import torch
from golden_case import Case, Family, Tokens, head_cases, labelled, torch_inputs
from golden_files import write_json
from golden_sentencepiece import train_sentencepiece

# --- Vocabulary and sizes ------------------------------------------------------------------------

_CONTROL = ("<cls>", "<sep>", "<pad>", "<mask>", "<eod>")
_SPECIAL = ("<unk>", "<s>", "</s>", *_CONTROL, "<eop>")
_PIECES = 95
PAD, CLS, SEP = (_SPECIAL.index(token) for token in ("<pad>", "<cls>", "<sep>"))


def write_vocabulary(directory: pathlib.Path) -> None:
    path = directory / "spiece.model"
    train_sentencepiece(
        path,
        _PIECES,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        control_symbols=list(_CONTROL),
        user_defined_symbols=["<eop>"],
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    first = [pieces.id_to_piece(i) for i in range(len(_SPECIAL))]
    if first != list(_SPECIAL) or len(pieces) != _PIECES:
        raise ValueError(f"{path} has {len(pieces)} pieces and begins with {first}.")
    write_json(
        directory / "tokenizer_config.json",
        {
            "do_lower_case": False,
            "keep_accents": False,
            "remove_space": True,
            "tokenizer_class": "XLNetTokenizer",
        },
    )


def left_padded(family, config, rng, lengths=(16, 11, 6, 3)) -> dict[str, np.ndarray]:
    """Padding, a text, `<sep>`, perhaps another and `<sep>`, `<cls>`: [batch, longest]."""
    shape = (len(lengths), max(lengths))
    place = np.arange(shape[1]) - shape[1]  # from the end
    padding_mask = (place >= -np.array(lengths)[:, None]).astype(np.int32)
    token_ids = rng.integers(family.tokens.first_ordinary, config.vocab_size, shape)
    token_ids[:, -2:] = SEP, CLS
    segment_ids = np.zeros(shape, np.int64)
    for row, length in enumerate(lengths):
        if length > 5:
            separator = shape[1] - length + rng.integers(1, length - 3)
            token_ids[row, separator] = SEP
            segment_ids[row, separator + 1 :] = 1
    segment_ids[:, -1] = 2
    return {
        "token_ids": np.where(padding_mask == 1, token_ids, PAD).astype(np.int32),
        "segment_ids": np.where(padding_mask == 1, segment_ids, 3).astype(np.int32),
        "padding_mask": padding_mask,
    }


def choice_inputs(family, config, rng):
    flat = left_padded(family, config, rng, lengths=(12, 9, 6, 7, 12, 4))
    return {name: values.reshape(2, 3, -1) for name, values in flat.items()}


def without_segments(family, config, rng):
    inputs = left_padded(family, config, rng)
    del inputs["segment_ids"]
    return inputs


XLNET = Family(
    prefix="XLNet",
    tiny_config={
        "d_model": 32,
        "n_layer": 2,
        "n_head": 4,
        "d_inner": 64,
        "mem_len": None,
        "vocab_size": _PIECES,
    },
    tokens=Tokens(pad=PAD, first=CLS, last=CLS, first_ordinary=len(_SPECIAL)),
    write_vocabulary=write_vocabulary,
    classes={"masked_lm": "LMHeadModel", "question_answering": "ForQuestionAnsweringSimple"},
)


# --- Two streams and a memory ----------------------------------------------------------------------

_SEGMENTS, _TARGETS = 3, 4


def two_streams(family, config, rng):
    """A random order of the tokens, in which targets neither see themselves nor what comes later."""
    inputs = left_padded(family, config, rng)
    batch, length = inputs["token_ids"].shape
    order = rng.permuted(np.tile(np.arange(length), (batch, 1)), axis=1)
    mapping = np.zeros((batch, _TARGETS, length), np.int32)
    for row, mask in enumerate(inputs["padding_mask"]):
        places = np.flatnonzero(mask)[: _TARGETS + row - 1]  # the first row lacks one
        for target, place in enumerate(places[:_TARGETS]):
            mapping[row, target, place] = 1
    is_target = mapping.any(1)
    perm_mask = (order[:, :, None] <= order[:, None, :]) & is_target[:, None, :]
    return inputs | {"perm_mask": perm_mask.astype(np.int32), "target_mapping": mapping}


def fill_in(family, config, rng):
    """Targets that no token sees."""
    inputs = left_padded(family, config, rng, lengths=(16, 11, 6))
    mapping = np.zeros((3, 2, 16), np.int32)
    for row, places in enumerate(((0, 9), (6, 12), (11, 13))):
        mapping[row, [0, 1], places] = 1
    hidden = np.broadcast_to(mapping.max(1)[:, None], (3, 16, 16))
    return inputs | {"perm_mask": np.ascontiguousarray(hidden), "target_mapping": mapping}


def target_labels(inputs, family, config, rng):
    """Tokens for the targets; -100 where there is none."""
    is_target = inputs["target_mapping"].any(2)
    labels = rng.integers(family.tokens.first_ordinary, config.vocab_size, is_target.shape)
    return np.where(is_target, labels, -100)


def with_streams(model, inputs, **options):
    # transformers 5.23 computes positions in float32, and with two streams only then.
    encoder = getattr(model, "transformer", model)
    positions = type(encoder).relative_positional_encoding
    encoder.relative_positional_encoding = lambda *args, **options: positions(
        encoder, *args, **options
    ).double()
    floats = {
        name: torch.from_numpy(inputs[name]).double() for name in ("perm_mask", "target_mapping")
    }
    return model(**torch_inputs(inputs), **floats, **options)


def run_two_streams(model, inputs):
    result = with_streams(model, inputs, output_hidden_states=True)
    return {
        "query_output": result.last_hidden_state,
        # Both streams by turns.
        "sequence_output": result.hidden_states[-2],
    }


def segments(family, config, rng):
    """Segments of a text one behind the other, [segments, batch, length]."""
    rows = [left_padded(family, config, rng, lengths=(9, 9)) for _ in range(_SEGMENTS)]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def both_directions(family, config, rng):
    """Segments, of which the second row's are given last to first."""
    inputs = segments(family, config, rng)
    backwards = np.tile(np.array([0, 1], np.int32), (_SEGMENTS, 1))
    return inputs | {"reads_backwards": backwards}


def carry_memory_both_ways(model, inputs):
    # In a file it would be refused: it belongs to training, and names rows by halves of a batch.
    model.bi_data = True
    return carry_memory(model, inputs)


def carry_memory(model, inputs):
    """What `encoder` gives for each segment, with the memory of those before."""
    found, memory = {"sequence_output": [], "hidden_states": []}, None
    for number in range(_SEGMENTS):
        of_segment = {name: values[number] for name, values in inputs.items()}
        result = model(**torch_inputs(of_segment), mems=memory, output_hidden_states=True)
        memory = result.mems
        found["sequence_output"].append(result.last_hidden_state)
        found["hidden_states"].append(torch.stack(result.hidden_states))
        found[f"memory_{number}"] = torch.stack(memory).transpose(1, 2)
    return {
        name: torch.stack(values) if isinstance(values, list) else values
        for name, values in found.items()
    }


# --- Answers whose ends are found given their starts ------------------------------------------------

_STARTS, _SUMMARY = 5, -1


def questions(family, config, rng):
    """A question of two tokens and its context."""
    inputs = left_padded(family, config, rng, lengths=(16, 14, 13, 12))
    behind = inputs["padding_mask"].cumsum(1)
    inputs["segment_ids"] = np.where(behind > 3, 1, np.where(behind > 0, 0, 3)).astype(np.int32)
    inputs["segment_ids"][:, _SUMMARY] = 2
    inputs["token_ids"][behind == 3] = SEP
    inputs["context_mask"] = (inputs["segment_ids"] == 1).astype(np.int32)
    inputs["context_mask"][:, -2] = 0
    return inputs


def answered_questions(family, config, rng):
    """With starts and ends; the last question has no answer."""
    inputs = questions(family, config, rng)
    return inputs | {"start_positions": np.array([9, 7, 12, 15], np.int32)}


_ENDS, _NO_ANSWER = [12, 7, 13, 15], [0.0, 0.0, 0.0, 1.0]


def spans(model, inputs):
    """As zihangdai/xlnet, get_qa_outputs, from transformers' layers.

    transformers 5.23 reads answerability off the given start in training, and the original off the
    expected one always.
    """
    hidden = model.transformer(**torch_inputs(inputs)).last_hidden_state
    nowhere = 1.0 - torch.from_numpy(inputs["context_mask"]).double()
    nowhere[:, _SUMMARY] = 0.0
    starts = model.start_logits(hidden, p_mask=nowhere).log_softmax(-1)
    expected = torch.einsum("blh,bl->bh", hidden, starts.exp())
    answerable = model.answer_class(hidden, start_states=expected)
    return hidden, nowhere, starts, answerable


def beam(model, inputs):
    hidden, nowhere, starts, answerable = spans(model, inputs)
    result = model(**torch_inputs(inputs), p_mask=nowhere)
    positions = result.start_top_index
    if not torch.equal(positions, starts.topk(_STARTS).indices) or not torch.allclose(
        result.cls_logits, answerable
    ):
        raise ValueError("transformers finds other starts than the original's arithmetic.")
    ends = [
        model.end_logits(hidden, start_positions=start, p_mask=nowhere)
        for start in positions.unbind(1)
    ]
    ends = torch.stack(ends, 1).log_softmax(-1)
    # Its probabilities, by ends and then by starts.
    likeliest = ends.exp().topk(model.end_n_top).values.transpose(1, 2).flatten(1)
    if not torch.allclose(result.end_top_log_probs, likeliest):
        raise ValueError("transformers finds other ends than the original's arithmetic.")
    return {
        "start_logits": starts,
        "end_logits": ends.transpose(1, 2),
        "start_positions": positions,
        "no_answer_logits": answerable[:, None],
    }


def given_starts(model, inputs):
    """With the loss, as zihangdai/xlnet run_squad.py, model_fn."""
    hidden, nowhere, starts, answerable = spans(model, inputs)
    start, end = torch.from_numpy(inputs["start_positions"]).long(), torch.tensor(_ENDS)
    ends = model.end_logits(hidden, start_positions=start, p_mask=nowhere).log_softmax(-1)
    losses = (
        torch.nn.functional.nll_loss(starts, start),
        torch.nn.functional.nll_loss(ends, end),
        torch.nn.functional.binary_cross_entropy_with_logits(
            answerable, torch.tensor(_NO_ANSWER).double()
        ),
    )
    return {
        "start_logits": starts,
        "end_logits": ends,
        "no_answer_logits": answerable[:, None],
        "loss": 0.5 * sum(losses),
        "end_positions": end,
    }


# --- The cases -----------------------------------------------------------------------------------

_ATTENTION = "transformer.layer.1.rel_attn."
_ENCODER_GRADIENTS = (
    "transformer.word_embedding.weight",
    *(f"{_ATTENTION}{name}" for name in ("q", "k", "v", "o", "r", "seg_embed", "layer_norm.bias")),
    *(f"{_ATTENTION}{name}" for name in ("r_w_bias", "r_r_bias", "r_s_bias")),
    "transformer.layer.0.ff.layer_1.weight",
    "transformer.layer.0.ff.layer_norm.weight",
)


def hub_config(config: dict) -> dict:
    """The config.json of xlnet-base-cased in circulation."""
    kept = (
        "architectures attn_type bi_data bos_token_id clamp_len d_head d_inner d_model dropout "
        "end_n_top eos_token_id ff_activation initializer_range layer_norm_eps model_type n_head "
        "n_layer pad_token_id same_length start_n_top summary_activation "
        "summary_last_dropout summary_type summary_use_proj vocab_size"
    ).split()
    return {key: config[key] for key in kept} | {
        "mem_len": None,
        "reuse_len": None,
        "untie_r": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 250}},
    }


CASES = (
    Case(
        "encoder",
        "One stream, both sides, padding in front, segments of which only equality counts; every "
        "hidden state and attention.",
        make_inputs=left_padded,
        internals=True,
    ),
    Case(
        "encoder_no_segments",
        "Without segment ids there is no such term; distances beyond 5 count as 5; ReLU.",
        config={"clamp_len": 5, "ff_activation": "relu", "n_layer": 1},
        make_inputs=without_segments,
    ),
    Case(
        "encoder_two_streams",
        "An order of the tokens, and a second stream for some of them.",
        make_inputs=two_streams,
        run=run_two_streams,
    ),
    Case(
        "encoder_memory",
        "Three segments with a memory of 7 tokens, of which each adds its first 6.",
        config={"mem_len": 7, "reuse_len": 6, "n_layer": 2},
        make_inputs=segments,
        run=carry_memory,
    ),
    Case(
        "encoder_both_directions",
        "The same with a row that is given last to first.",
        config={"mem_len": 7, "reuse_len": 6, "n_layer": 1},
        make_inputs=both_directions,
        run=carry_memory_both_ways,
    ),
    Case(
        "masked_lm",
        "The language model over the content stream, and the config.json of the hub; loss and gradients.",
        make_inputs=left_padded,
        edit_config=hub_config,
        gradients=(*_ENCODER_GRADIENTS, "lm_loss.bias"),
    ),
    Case(
        "masked_lm_targets",
        "The language model over the second stream: two tokens of a row that no other sees.",
        config={"n_layer": 1},
        make_inputs=fill_in,
        call=with_streams,
    ),
    Case(
        "masked_lm_order",
        "The language model over the second stream, in an order of the tokens; loss and gradients.",
        make_inputs=two_streams,
        call=with_streams,
        make_labels=target_labels,
        gradients=(*_ENCODER_GRADIENTS, "transformer.mask_emb", "lm_loss.bias"),
    ),
    Case(
        "classification",
        "The last token's summary, three named classes; loss and gradients.",
        config={"problem_type": "single_label_classification", "summary_last_dropout": 0.2}
        | labelled("negative", "neutral", "positive"),
        make_inputs=left_padded,
        gradients=(
            *_ENCODER_GRADIENTS,
            "sequence_summary.summary.weight",
            "logits_proj.weight",
            "logits_proj.bias",
        ),
    ),
    Case(
        "question_answering",
        "Start and end of the answer.",
        make_inputs=left_padded,
    ),
    Case(
        "beam_question_answering",
        "Starts of the answer, ends given the five likeliest ones, and whether there is an answer.",
        config={"n_layer": 1},
        make_inputs=questions,
        run=beam,
    ),
    Case(
        "beam_question_answering_training",
        "Ends given the start, and the loss.",
        config={"n_layer": 1},
        make_inputs=answered_questions,
        run=given_starts,
    ),
    *(
        dataclasses.replace(
            case, make_inputs=choice_inputs if case.name == "multiple_choice" else left_padded
        )
        for case in head_cases({"n_layer": 1}, choice="")
    ),
)
