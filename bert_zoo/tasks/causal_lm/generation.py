"""Text generation from a prompt with keras_hub's samplers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np

from bert_zoo.models.direct import tokenized
from bert_zoo.models.graphs import on_model
from bert_zoo.tasks.generation import (
    Generation,
    IdOutput,
    TextOutput,
    checked_ids,
    left_padded,
    slots_for,
    with_prefix,
)

# Tokens of a prompt read at once.
PIECE = 128


def read_prompts(model, rows: Sequence[np.ndarray], new_tokens: int = 0) -> dict[str, Any]:
    """Reads token ids in pieces of `PIECE` tokens and returns the state after them.

    A state that grows with the text has room for `new_tokens` more. It has the form of `initial_memory`.

    Rows of different lengths are padded on the right, which no query sees, and each row's memory ends with its
    own last token, so a row's state does not depend on other rows. (Padding on the left would shift the zeros
    that a text starts from, which count as a past.)
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
    """Returns the state after the first `lengths` [batch] of token_ids [batch, length]."""
    # The model's call would also run the softmax.
    return model.encoder.backbone.state_after(token_ids, lengths, state)


@dataclass(frozen=True)
class PromptStep:
    """A `bert_zoo.tasks.generation.Step`.

    Attributes:
        gives_logits: whether scores are logits and not log-probabilities.
    """

    gives_logits: bool = False
    fixed: ClassVar[tuple[str, ...]] = ()

    def __call__(self, model, tokens, state):
        inputs = {"token_ids": tokens[:, None], **state}
        if self.gives_logits:
            scores, outputs = model.next_logits(inputs)
        else:
            outputs = model(inputs, training=False)
            scores = outputs["log_probs"]
        return scores[:, 0], {name: outputs[name] for name in state}


def generate(model, prompt, **options):
    """See `CausalLM.generate`."""
    if any(0 in entry.shape for entry in keras.tree.flatten(model.initial_memory(1, tokens=1))):
        raise ValueError(
            "This model's mem_len is 0, so every token would depend only on the previous one. Load it with a memory, for "
            "example load(..., mem_len=512)."
        )
    generation = Generation(model, **options)
    prompt = with_prefix(prompt, generation.config.prefix, "prompt")
    kind = IdPrompts if isinstance(prompt, Mapping) else TextPrompts
    prompts = kind(model, prompt, generation.stop_ids)
    if not prompts.rows:
        return generation.no_texts()
    rows, longest = prompts.rows, max(map(len, prompts.rows))
    number = generation.new_tokens(longest)
    # The last token is not read.
    if longest + number - 1 > model.longest_input:
        raise ValueError(
            f"The longest prompt has {longest} tokens. With max_new_tokens={number}, its text would exceed the "
            f"{model.longest_input} positions of this model. Choose at most "
            f"{max(model.longest_input - longest + 1, 0)} new tokens, or shorten the prompt."
        )

    def begin():
        tokens = left_padded(rows) if generation.processor.reads_prompt else last_tokens(rows)
        return tokens, read_prompts(model, [row[:-1] for row in rows], number)

    step = PromptStep(generation.reads_logits)
    return generation.outputs(prompts, [begin], step, number)


def last_tokens(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the last token of each row, int32 [rows, 1]."""
    return np.array([row[-1:] for row in rows], "int32")


class IdPrompts(IdOutput):
    """Prompts and results as ids.

    Attributes:
        rows: the ids that the model reads, one array per prompt.
    """

    def __init__(self, model, prompt: Mapping[str, Any], stop_ids: Sequence[int]):
        token_ids, mask = checked_ids(model, prompt, "prompt")
        super().__init__(token_ids)
        self.rows = [row[real > 0] for row, real in zip(token_ids, mask, strict=True)]


class TextPrompts(TextOutput):
    """Prompts and results as texts. Results begin with the prompts as the model reads them.

    Attributes: as for `IdPrompts`.
    """

    def __init__(self, model, prompt: str | Sequence[str], stop_ids: Sequence[int]):
        from bert_zoo.text.batches import strings, text_batch

        tokenizer = model.preprocessor.tokenizer
        texts = text_batch(prompt, "prompt")
        tokens = zip(strings(texts), tokenized(model, texts), strict=True)
        # If the tokenizer ends every line, the prompt's last line stays open.
        closes = tokenizer.eos_at in ("line_ends", "line_starts_and_ends")
        shown = [
            row[:-1] if closes and not text.endswith(("\n", "\r")) else row for text, row in tokens
        ]
        self.rows = [row if row.size else _start(tokenizer) for row in shown]
        super().__init__(tokenizer, shown, stop_ids, isinstance(prompt, str))


def _start(tokenizer) -> np.ndarray:
    """Returns the ids that an empty prompt continues from."""
    if not hasattr(tokenizer, "eos_id"):
        raise ValueError(
            "The prompt is empty, but this vocabulary has no end token to start a text from. Pass a prompt of at least "
            "one token."
        )
    return np.array([tokenizer.eos_id], "int32")
