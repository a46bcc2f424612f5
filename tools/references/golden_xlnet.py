"""What the golden cases of XLNet need: rows with padding in front, two streams, a memory, beams."""

import golden_vocabularies as vocabularies
import numpy as np
import torch
from golden_case import Tokens, torch_inputs

PAD, CLS, SEP = map(vocabularies.XLNET_SPECIAL.index, ("<pad>", "<cls>", "<sep>"))
TOKENS = Tokens(pad=PAD, first=CLS, last=CLS, first_ordinary=len(vocabularies.XLNET_SPECIAL))


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
