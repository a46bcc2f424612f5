"""Text that goes on from a prompt: the model reads and steps, keras_hub's samplers choose."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from bert_zoo.models.direct import tokenized
from bert_zoo.models.graphs import on_model
from bert_zoo.tasks.generation import Generation, IdOutput, TextOutput, checked_ids, slots_for

# Tokens of a prompt that are read at once.
PIECE = 128


def read_prompts(model, rows: Sequence[np.ndarray], new_tokens: int = 0) -> dict[str, Any]:
    """The state after token ids of any length each, in pieces of `PIECE` tokens.

    A state that grows with the text has room for `new_tokens` more.

    The state of a text is what `initial_memory` returns.

    Rows of different lengths are padded on the right, where no query sees, and each row's memory
    ends with its own last token: every row has the state that it has alone. (Padding on the left
    would push zeros that a text starts from, which count as a past, out of their positions.)
    """
    lengths = np.array([len(row) for row in rows])
    state = model.initial_memory(len(rows), tokens=slots_for(lengths.max() + new_tokens))
    for start in range(0, lengths.max(), PIECE):
        kept = np.clip(lengths - start, 0, PIECE).astype("int32")
        piece = np.zeros((len(rows), kept.max()), "int32")
        for to, row, number in zip(piece, rows, kept, strict=True):
            to[:number] = row[start : start + number]
        state = on_model(model, _read_piece, piece, kept, state)
    return state


def _read_piece(model, token_ids, lengths, state):
    """The state after the first `lengths` [batch] of token_ids [batch, length]."""
    # Not the model's call, which runs the softmax.
    return model.encoder.backbone.state_after(token_ids, lengths, state)


def _step(model, token_ids, state):
    """From tokens [batch] to float32 log-probabilities [batch, vocabulary] of the next ones."""
    outputs = model({"token_ids": token_ids[:, None], **state}, training=False)
    return outputs["log_probs"][:, 0], {name: outputs[name] for name in state}


def generate(model, prompt, *, max_new_tokens, **options):
    """See `CausalLM.generate`."""
    if any(0 in entry.shape for entry in keras.tree.flatten(model.initial_memory(1, tokens=1))):
        raise ValueError(
            "This model's mem_len is 0, so every token would be chosen by the one before it alone. "
            "Load it with a memory, for example load(..., mem_len=512)."
        )
    generation = Generation(model, _step, max_new_tokens=max_new_tokens, **options)
    kind = IdPrompts if isinstance(prompt, Mapping) else TextPrompts
    prompts = kind(model, prompt, generation.stop_ids)
    rows, longest = prompts.rows, max(map(len, prompts.rows))
    # The last token is not read.
    if longest + max_new_tokens - 1 > model.longest_input:
        raise ValueError(
            f"The longest prompt has {longest} tokens, and with max_new_tokens={max_new_tokens} its text "
            f"would be longer than the {model.longest_input} positions of this model. Ask for at most "
            f"{max(model.longest_input - longest + 1, 0)} new tokens, or shorten the prompt."
        )

    def begin():
        last = np.array([row[-1] for row in rows], "int32")
        return last, read_prompts(model, [row[:-1] for row in rows], max_new_tokens)

    return generation.outputs(prompts, [begin])


class IdPrompts(IdOutput):
    """Prompts as ids; ids come out.

    Attributes:
        rows: the ids that the model reads, an array for each prompt.
    """

    def __init__(self, model, prompt: Mapping[str, Any], stop_ids: Sequence[int]):
        token_ids, mask = checked_ids(model, prompt, "prompt")
        super().__init__(token_ids)
        self.rows = [row[real > 0] for row, real in zip(token_ids, mask, strict=True)]


class TextPrompts(TextOutput):
    """Prompts as texts; texts come out, which begin with the prompts as the model reads them.

    Attributes: as `IdPrompts`.
    """

    def __init__(self, model, prompt: str | Sequence[str], stop_ids: Sequence[int]):
        from bert_zoo.text.batches import strings, text_batch

        tokenizer = model.preprocessor.tokenizer
        texts = text_batch(prompt, "prompt")
        if not texts.shape[0]:
            raise ValueError("There is no prompt: the list is empty. Pass [''] for an empty one.")
        tokens = zip(strings(texts), tokenized(model, texts), strict=True)
        # A prompt's last line stays open where the tokenizer ends every line.
        closes = tokenizer.eos_at in ("line_ends", "line_starts_and_ends")
        shown = [
            row[:-1] if closes and not text.endswith(("\n", "\r")) else row for text, row in tokens
        ]
        self.rows = [row if row.size else _start(tokenizer) for row in shown]
        super().__init__(tokenizer, shown, stop_ids, isinstance(prompt, str))


def _start(tokenizer) -> np.ndarray:
    """What an empty prompt goes on from."""
    if not hasattr(tokenizer, "eos_id"):
        raise ValueError(
            "The prompt is empty, and this vocabulary has no end token to start a text from. "
            "Pass a prompt of at least one token."
        )
    return np.array([tokenizer.eos_id], "int32")
