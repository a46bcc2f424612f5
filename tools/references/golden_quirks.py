"""What single families need while their golden cases are made: inputs, weights, calls of transformers."""

import pathlib

import golden_vocabularies as vocabularies
import numpy as np
import torch
import transformers
from golden_case import (
    Case,
    Family,
    batch_inputs,
    load_checkpoint,
    random_inputs,
    torch_inputs,
    write_checkpoint,
)
from golden_files import random_generator
from transformers.models.modernbert import modeling_modernbert

# --- BERT ----------------------------------------------------------------------------------------

_TEXT_PAIRS = (
    ("The cat sat on the tree.", "It was a good day!"),
    ("Is this that very big house?", "No"),
    ("we ran to the river, and she saw 27 red birds", "They're not in the city at night..."),
    ("Film", "booked"),
)


def text_inputs(family, config, rng):
    """Pairs of texts and the ids that transformers' tokenizer gives for them."""
    del family, config, rng
    tokenizer = transformers.BertTokenizer(
        vocab={token: index for index, token in enumerate(vocabularies.BERT)}, do_lower_case=True
    )
    firsts, seconds = zip(*_TEXT_PAIRS, strict=True)
    encoded = tokenizer(list(firsts), list(seconds), padding="longest", return_tensors="np")
    return {
        "texts": np.array(firsts),
        "text_pairs": np.array(seconds),
        "token_ids": encoded["input_ids"].astype(np.int32),
        "segment_ids": encoded["token_type_ids"].astype(np.int32),
        "padding_mask": encoded["attention_mask"].astype(np.int32),
    }


STEPS, PEAK_LEARNING_RATE = 20, 1e-3  # of the case that is trained
# Adam's bias corrections are 1 at such a step: BERT's Adam has none.
UNCORRECTED_STEP = 1e9


def reference_training(
    family: Family, model: transformers.PreTrainedModel, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Trains with BERT's recipe, without dropout.

    Returns:
        The batches [steps, batch, length], labels [steps, batch], losses [steps], and
        `weight/<name>` for each parameter after the last step.
    """
    batches = [
        random_inputs(family, model.config, rng, lengths=(12, 9, 7, 12)) for _ in range(STEPS)
    ]
    labels = rng.integers(0, model.config.num_labels, (STEPS, 4))
    optimizer, schedule = bert_adamw(model, PEAK_LEARNING_RATE, STEPS)
    losses = []
    for inputs, batch_labels in zip(batches, labels, strict=True):
        loss = model(**torch_inputs(inputs), labels=torch.from_numpy(batch_labels)).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return {
        **{name: np.stack([inputs[name] for inputs in batches]) for name in batches[0]},
        "labels": labels.astype(np.int32),
        "losses": np.array(losses, np.float32),
        **{
            f"weight/{name}": parameter.detach().numpy().astype(np.float32)
            for name, parameter in model.named_parameters()
        },
    }


def bert_adamw(
    model: torch.nn.Module, peak: float, num_steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """The optimizer of google-research/bert optimization.py, but for its clipping.

    Returns:
        The optimizer, and its schedule: the rate rises from 0, then joins the line from the peak at
        step 0 to zero at the end.
    """
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        excluded = "LayerNorm" in name or "bias" in name
        (plain if excluded else decayed).append(parameter)
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=peak,
        eps=1e-6,
        fused=True,
    )
    for parameter in (*decayed, *plain):
        optimizer.state[parameter] = {
            "step": torch.tensor(UNCORRECTED_STEP, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    num_warmup_steps = int(num_steps * 0.1)

    def part_of_peak(step: int) -> float:
        return step / num_warmup_steps if step < num_warmup_steps else 1 - step / num_steps

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, part_of_peak)


# --- RoBERTa, MPNet ------------------------------------------------------------------------------


def padded_inputs(family, config, rng):
    """Rows that differ in where the pad id stands and what the mask says of it.

    Positions count the tokens that are not the pad id; the attention follows the mask.
    """
    inputs = random_inputs(family, config, rng, lengths=(12, 8, 12, 12, 12))
    token_ids, padding_mask = inputs["token_ids"], inputs["padding_mask"]
    padded_left, pad_as_token, masked_words = 2, 3, 4
    token_ids[padded_left] = np.roll(token_ids[1], 4)
    padding_mask[padded_left] = np.roll(padding_mask[1], 4)
    token_ids[pad_as_token, [3, 7, 8]] = family.tokens.pad  # and the mask stays 1
    padding_mask[masked_words, [4, 9]] = 0  # and the tokens stay
    return inputs


# --- ALBERT --------------------------------------------------------------------------------------


def run_albert(
    model: transformers.AlbertModel, inputs: dict[str, torch.Tensor]
) -> tuple[dict, dict[str, torch.Tensor]]:
    """The outputs, the hidden state behind each group of inner layers, and all attentions.

    transformers 5.23 records the hidden state behind each inner layer, and the embeddings before
    they are mapped to the hidden size; transformers 4 and Google's code have those wanted here.
    """
    states = []

    def keep(module, arguments, output):
        states.append(output)

    recorded = (model.encoder.embedding_hidden_mapping_in, *model.encoder.albert_layer_groups)
    hooks = [module.register_forward_hook(keep) for module in recorded]
    result = model(**inputs, output_attentions=True)
    for hook in hooks:
        hook.remove()
    config = model.config
    counts = (len(states), len(result.attentions))
    if counts != (config.num_hidden_layers + 1, config.num_hidden_layers * config.inner_group_num):
        raise ValueError(f"transformers records {counts} hidden states and attentions.")
    return result, {
        "hidden_states": torch.stack(states),
        "attentions": torch.stack(result.attentions),
    }


# --- MobileBERT ----------------------------------------------------------------------------------


def calm_mobilebert(model) -> None:
    """Smaller kernels in the blocks, whose sums no norm bounds on their way up."""
    for parameter in model.base_model.encoder.layer.parameters():
        parameter.data *= 0.5 if parameter.ndim == 2 else 1.0


def trained_by_transformers(model) -> None:
    """With zeros for padding, whose vector transformers never trains, so that none of it is seen."""
    calm_mobilebert(model)
    model.base_model.embeddings.word_embeddings.weight.data[vocabularies.BERT.index("[PAD]")] = 0


def without_padding(model, inputs, **options):
    """What transformers computes where padding has no vector, which is what it computes of each text alone."""
    padding = model.embeddings.word_embeddings.weight[vocabularies.BERT.index("[PAD]")]
    stored = padding.clone()
    padding.zero_()
    result = model(**torch_inputs(inputs), **options)
    padding.copy_(stored)
    for row, mask in enumerate(inputs["padding_mask"] == 1):
        alone = {name: values[row : row + 1, mask] for name, values in inputs.items()}
        found = model(**torch_inputs(alone)).last_hidden_state[0]
        torch.testing.assert_close(found, result.last_hidden_state[row, mask])
    return result


# --- ModernBERT ----------------------------------------------------------------------------------


def attend(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """transformers' eager attention in float64 throughout.

    Its softmax is one in float32 always, where float64's least number, which hides keys, is minus
    infinity: rows that see nothing are not a number then, which they are not in a float32 model.
    """
    scores = query @ key.transpose(2, 3) * scaling
    probabilities = torch.softmax(scores if attention_mask is None else scores + attention_mask, -1)
    return (probabilities @ value).transpose(1, 2).contiguous(), probabilities


modeling_modernbert.eager_attention_forward = attend


def calm_modernbert(model) -> None:
    """Smaller weights in the blocks, whose sums no norm bounds on their way up."""
    for layer in model.base_model.layers.parameters():
        layer.data *= 0.5 if layer.ndim == 2 else 1.0


# --- XLM -----------------------------------------------------------------------------------------


def with_languages(make_inputs):
    """Inputs in which each row begins in one language and may go on in another."""

    def make(family, config, rng):
        inputs = make_inputs(family, config, rng)
        *rows, length = inputs["token_ids"].shape
        first, second = rng.integers(0, len(vocabularies.LANGUAGES), (2, *rows, 1))
        goes_on = np.arange(length) >= rng.integers(1, length, (*rows, 1))
        return inputs | {"language_ids": np.where(goes_on, second, first).astype(np.int32)}

    return make


def translation_inputs(family, config, rng):
    """Two sentences a row, </s> around both: positions start again, and languages differ."""
    inputs = batch_inputs(family, config, rng)
    length = inputs["token_ids"].shape[1]
    lengths = inputs["padding_mask"].sum(1)
    # The shortest row has one sentence.
    begins = np.where(lengths > 5, lengths // 2, lengths)[:, None]
    place = np.arange(length)
    is_second = place >= begins
    is_border = (place == begins - 1) | (place == begins) & (begins < lengths[:, None])
    languages = np.array([[0, 1], [2, 0], [1, 2], [2, 2]])
    return inputs | {
        "token_ids": np.where(is_border, family.tokens.last, inputs["token_ids"]).astype(np.int32),
        "position_ids": np.where(is_second, place - begins, place).astype(np.int32)
        * inputs["padding_mask"],
        "language_ids": np.where(is_second, languages[:, 1:], languages[:, :1]).astype(np.int32),
    }


def scaled_norms(model: torch.nn.Module) -> None:
    """Norms' scales are around 1, as those of the other families are."""
    for name, parameter in model.named_parameters():
        if "layer_norm" in name and name.endswith("weight"):
            parameter.data += 1.0


# --- GPT -----------------------------------------------------------------------------------------


def make_language_model(family: Family, case: Case, directory: pathlib.Path) -> None:
    """As `make_case`, with log-probabilities of all tokens and of those that follow."""
    rng = random_generator(case.name)
    written = write_checkpoint(family, case, rng, directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    model = load_checkpoint(case, directory, written)
    inputs = case.make_inputs(family, model.config, rng)
    token_ids, mask = inputs["token_ids"], inputs["padding_mask"]
    following = np.pad(token_ids[:, 1:], [(0, 0), (0, 1)])
    is_label = np.pad(mask[:, 1:], [(0, 0), (0, 1)]) & mask
    labels = np.where(is_label == 1, following, -100).astype(np.int32)

    logits = model(**torch_inputs(inputs)).logits
    of_all = torch.log_softmax(logits, -1)
    index = torch.from_numpy(np.maximum(labels, 0)).long()
    counted = torch.from_numpy(labels != -100)
    of_labels = torch.gather(of_all, 2, index[..., None])[..., 0] * counted
    loss = -of_labels.sum() / counted.sum()
    # transformers takes the tokens themselves, and leaves out those of -100 after its shift.
    theirs = torch.from_numpy(np.where(mask == 1, token_ids, -100)).long()
    of_theirs = model(**torch_inputs(inputs), labels=theirs).loss
    torch.testing.assert_close(loss.float(), of_theirs.float())
    arrays = {"labels": labels, "log_probs": of_labels, "vocab_log_probs": of_all}
    if case.gradients:
        loss.backward()
        parameters = dict(model.named_parameters())
        arrays |= {"loss": loss}
        arrays |= {f"gradient/{name}": parameters[name].grad for name in case.gradients}
    arrays = {
        name: value.detach().numpy().astype(np.float32) if torch.is_tensor(value) else value
        for name, value in arrays.items()
    }
    np.savez_compressed(directory / "io.npz", **inputs | arrays)
