"""The golden cases of DeBERTa 1 to 3.

Encoders, fine-tuned heads and its own two heads for masked tokens are computed by transformers, Microsoft's
head for them by the original code (https://github.com/microsoft/DeBERTa at
4d7fe0b, MIT), read from a directory that the caller names.

Padding asks what tokens ask here, as in other families: transformers has padding attend to everything
alike, and the original to nothing. No token sees the difference, which `_check_tokens` makes sure of.
"""

import dataclasses
import functools
import importlib
import pathlib
import sys
import types

import numpy as np
import torch
import transformers
from golden_case import (
    Case,
    Family,
    batch_inputs,
    masked_token_labels,
    randomize,
    run_with_internals,
    save_bin,
)
from golden_files import random_generator, stand_in, write_json
from golden_vocabularies import PIECES

DIRECTORY: pathlib.Path | None = None  # the original repository, which make_golden.py sets

# --- Padding that asks as tokens do --------------------------------------------------------------


def _of_keys(encoder, attention_mask):
    """Which keys are seen, [batch, 1, 1, length], whoever asks."""
    return attention_mask[:, None, None, :]


def _check_tokens(run, encoder_class):
    """What `run()` gives with such a mask, which must be what it gives of tokens without."""
    plain, mask = run()
    original = encoder_class.get_attention_mask
    encoder_class.get_attention_mask = _of_keys
    try:
        changed, _ = run()
    finally:
        encoder_class.get_attention_mask = original
    for name, value in plain.items():
        differs = (value - changed[name]).abs()
        if value.dim() > 1 and value.shape[:2] == mask.shape:
            differs = differs[mask == 1]
        elif value.dim() == 4 and value.shape[1:3] == mask.shape:
            differs = differs[:, mask == 1]
        elif value.dim() == 5:
            differs = differs.permute(1, 3, 0, 2, 4)[mask == 1]
        if differs.max() > 1e-6:
            raise ValueError(f"The mask changes {name} by {differs.max()}.")
    return changed


def run_padded(model, inputs):
    """As `run_with_internals`, of any task, with padding as above."""
    encoder_class = type(model.base_model.encoder)
    mask = inputs["attention_mask"]

    def run():
        result = model(**inputs)
        outputs = {n: v for n, v in result.items() if isinstance(v, torch.Tensor)}
        if model is model.base_model:
            outputs |= run_with_internals(model, inputs)[1]
        return outputs, mask

    changed = _check_tokens(run, encoder_class)
    internals = {n: changed[n] for n in ("hidden_states", "attentions") if n in changed}
    return changed, internals


# --- The original code ---------------------------------------------------------------------------


@functools.cache
def _original() -> types.SimpleNamespace:
    """The modules of the model, without the programs around them."""
    if DIRECTORY is None:
        raise ValueError(
            "The masked tokens of deberta and deberta_v2 are computed by the original code: give "
            "--deberta_dir, or name the others with --cases."
        )
    directory = DIRECTORY / "DeBERTa"
    if not (directory / "deberta" / "bert.py").is_file():
        raise FileNotFoundError(f"{directory} is not that of the DeBERTa repository.")

    class Logger:
        def __getattr__(self, name):
            return lambda *_, **__: None

    stand_in("DeBERTa", directory)
    stand_in("DeBERTa.utils", directory / "utils", get_logger=Logger, xtqdm=None)
    package = stand_in("DeBERTa.deberta", directory / "deberta")
    stand_in("DeBERTa.deberta.cache_utils", load_model_state=None)
    stand_in("DeBERTa.apps", directory / "apps")
    stand_in("DeBERTa.apps.models", directory / "apps" / "models")
    for name in ("ops", "config", "disentangled_attention", "bert", "deberta", "nnmodule"):
        module = importlib.import_module(f"DeBERTa.deberta.{name}")
        package.__dict__.update({n: getattr(module, n) for n in module.__all__})
    models = ("masked_language_model", "replaced_token_detection_model")
    return types.SimpleNamespace(
        ModelConfig=package.ModelConfig,
        encoder=sys.modules["DeBERTa.deberta.bert"].BertEncoder,
        buckets=importlib.import_module("DeBERTa.deberta.da_utils").build_relative_position,
        **{name: importlib.import_module(f"DeBERTa.apps.models.{name}") for name in models},
    )


def _hub_config(config) -> dict:
    """What the released config.json says."""
    keys = """model_type attention_probs_dropout_prob hidden_act hidden_dropout_prob hidden_size
        initializer_range intermediate_size max_position_embeddings relative_attention
        position_buckets norm_rel_ebd share_att_key pos_att_type layer_norm_eps conv_kernel_size
        conv_act max_relative_positions position_biased_input num_attention_heads num_hidden_layers
        type_vocab_size vocab_size""".split()
    written = {key: value for key, value in config.to_dict().items() if key in keys}
    return written | {"pos_att_type": "|".join(config.pos_att_type)}


def _random_state(family: Family, config, rng) -> dict[str, torch.Tensor]:
    """Encoder, table of positions and head, under the names of released files."""
    encoder = getattr(transformers, f"{family.prefix}Model")(config)
    width, rows = config.hidden_size, config.vocab_size
    head = torch.nn.ModuleDict(
        {
            "dense": torch.nn.Linear(width, width),
            "LayerNorm": torch.nn.LayerNorm(width),
            "positions": torch.nn.Embedding(config.max_position_embeddings, width),
            "classes": torch.nn.Linear(1, rows),
        }
    )
    for module in (encoder, head):
        randomize(module, rng)
    state = {f"deberta.{name}": value for name, value in encoder.state_dict().items()}
    scope = "lm_predictions.lm_head"
    state["deberta.embeddings.position_embeddings.weight"] = head["positions"].weight.data
    for name in ("dense", "LayerNorm"):
        values = head[name].state_dict().items()
        state |= {f"{scope}.{name}.{part}": value for part, value in values}
    return state | {f"{scope}.bias": head["classes"].bias.data}


def make_masked_lm(family: Family, case: Case, directory: pathlib.Path) -> None:
    """A file as Microsoft's, and what its code makes of it."""
    original, rng = _original(), random_generator(f"{family.prefix}/{case.name}")
    config = family.config(**case.config)
    state = _random_state(family, config, rng)
    save_bin(state, directory)
    said = _hub_config(config)
    write_json(directory / "config.json", said)
    family.write_vocabulary(directory)

    model = original.masked_language_model.MaskedLanguageModel(original.ModelConfig.from_dict(said))
    missing = model.load_state_dict({n: v.clone() for n, v in state.items()}, strict=True)
    if missing.missing_keys or missing.unexpected_keys:
        raise ValueError(f"The original code does not read {directory}: {missing}.")
    model.double().eval()
    inputs = case.make_inputs(family, config, rng)
    token_ids, padding_mask = (
        torch.from_numpy(inputs[name]).long() for name in ("token_ids", "padding_mask")
    )

    def run(labels=None):
        # It gives logits of what has a label.
        everything = torch.ones_like(token_ids) if labels is None else labels
        seen = padding_mask[:, None, :].expand(-1, token_ids.shape[1], -1)
        return model(token_ids, padding_mask, everything, attention_mask=seen)

    plain = model(token_ids, padding_mask, torch.ones_like(token_ids))["logits"]

    def changed():
        logits = run()["logits"].reshape(*token_ids.shape, -1)
        return {"logits": logits}, padding_mask

    with torch.no_grad():
        logits = _check_tokens(changed, original.encoder)["logits"]
        differs = (plain.reshape(logits.shape) - logits).abs()[padding_mask == 1].max()
        if differs > 1e-6:
            raise ValueError(f"The mask changes logits by {differs}.")
    labels = masked_token_labels(inputs, family, config, rng)
    loss = run(torch.from_numpy(np.maximum(labels, 0)).long())["loss"].mean()
    loss.backward()
    parameters = dict(model.named_parameters())
    np.savez_compressed(
        directory / "io.npz",
        **inputs,
        logits=logits.numpy().astype(np.float32),
        labels=labels.astype(np.int32),
        loss=loss.detach().numpy().astype(np.float32),
        **{
            f"gradient/{name}": parameters[name].grad.numpy().astype(np.float32)
            for name in case.gradients
        },
    )


# --- Replaced tokens -----------------------------------------------------------------------------

# Of the loss of replaced tokens; He et al. 2021 (arXiv:2111.09543), section 3.1.
_WEIGHT = 50.0
_GENERATOR_GRADIENTS = (
    "deberta.embeddings.word_embeddings.weight",
    "deberta.encoder.layer.0.attention.self.query_proj.weight",
    "lm_predictions.lm_head.bias",
)
_DISCRIMINATOR_GRADIENTS = (
    "deberta.embeddings.word_embeddings._weight",
    "deberta.embeddings.LayerNorm.weight",
    "deberta.encoder.layer.1.output.dense.bias",
    "mask_predictions.LayerNorm.bias",
    "mask_predictions.dense.weight",
    "mask_predictions.classifier.weight",
)


def _discriminator(original, config, state):
    """The original's, whose table is another one's plus the difference that the state holds.

    As RTDModel of rtd_task.py makes and fills it, whose module needs a program around it.
    """
    model = original.replaced_token_detection_model.ReplacedTokenDetectionModel(config)
    table = model.deberta.embeddings.word_embeddings
    shape = table.weight.shape
    del table.weight
    table.register_parameter("_weight", torch.nn.Parameter(torch.zeros(shape)))
    table.register_buffer("weight", torch.zeros(shape))
    # Discriminators read no positions.
    model.load_state_dict(state, strict=False)
    return model.double().eval()


def make_pretraining(family: Family, case: Case, directory: pathlib.Path) -> None:
    """Files of discriminator and generator as Microsoft's, and a step of both by its code."""
    original, rng = _original(), random_generator(f"{family.prefix}/{case.name}")
    config = family.config(**case.config)
    half = family.config(**case.config | {"num_hidden_layers": config.num_hidden_layers // 2})
    generated = _random_state(family, half, rng)
    # Released discriminators have a head for masked tokens too, which nothing trained.
    state = _random_state(family, config, rng)
    width = config.hidden_size
    head = torch.nn.ModuleDict(
        {
            "dense": torch.nn.Linear(width, width),
            "LayerNorm": torch.nn.LayerNorm(width),
            "classifier": torch.nn.Linear(width, 1),
        }
    )
    randomize(head, rng)
    state |= {f"mask_predictions.{name}": value for name, value in head.state_dict().items()}
    table = "deberta.embeddings.word_embeddings"
    state[f"{table}._weight"] = state[f"{table}.weight"] - generated[f"{table}.weight"]
    save_bin(state, directory)
    (directory / "pytorch_model.bin").rename(directory / "discriminator")
    save_bin(generated, directory)
    (directory / "pytorch_model.bin").rename(directory / "pytorch_model.generator.bin")
    (directory / "discriminator").rename(directory / "pytorch_model.bin")
    said, said_of_half = _hub_config(config), _hub_config(half)
    write_json(directory / "config.json", said)
    family.write_vocabulary(directory)

    inputs = case.make_inputs(family, config, rng)
    token_ids, padding_mask = inputs["token_ids"], inputs["padding_mask"]
    mask_id = PIECES
    positions = np.stack(
        [rng.choice(np.arange(1, n - 1), 3, replace=False) for n in padding_mask.sum(1)]
    )
    labels, read = np.zeros_like(token_ids), token_ids.copy()
    np.put_along_axis(labels, positions, np.take_along_axis(token_ids, positions, 1), 1)
    samples = rng.integers(family.tokens.first_ordinary, config.vocab_size, positions.shape)
    samples[:, 0] = np.take_along_axis(token_ids, positions, 1)[:, 0]  # some are right
    np.put_along_axis(read, positions, samples, 1)
    masked = np.where(labels > 0, mask_id, token_ids)

    model_config = original.ModelConfig.from_dict
    generator = original.masked_language_model.MaskedLanguageModel(model_config(said_of_half))
    generator.load_state_dict(generated, strict=True)
    generator.double().eval()
    discriminator = _discriminator(original, model_config(said), state)
    ours = discriminator.deberta.embeddings.word_embeddings
    ours.weight = generator.deberta.embeddings.word_embeddings.weight.detach() + ours._weight
    masked, read, mask, wanted = (
        torch.from_numpy(np.asarray(value)).long() for value in (masked, read, padding_mask, labels)
    )

    encoder, get_attention_mask = original.encoder, original.encoder.get_attention_mask
    encoder.get_attention_mask = _of_keys
    try:
        seen = mask[:, None, :].expand(-1, mask.shape[1], -1)
        mlm = generator(masked, mask, wanted, attention_mask=seen)
        rtd = discriminator(read, mask, wanted)
        loss = mlm["loss"].mean() + _WEIGHT * rtd["loss"].mean()
        loss.backward()
        everything = generator(masked, mask, torch.ones_like(wanted), attention_mask=seen)["logits"]
    finally:
        encoder.get_attention_mask = get_attention_mask
    # Logits are those of the labelled in their order, which is that of sorted positions.
    positions = np.sort(positions, axis=1)
    logits = everything.reshape(*mask.shape, -1)
    at = torch.from_numpy(positions)[..., None].expand(-1, -1, logits.shape[-1])
    gradients = {
        f"{scope}/{name}": dict(model.named_parameters())[name].grad
        for scope, model, names in (
            ("generator", generator, _GENERATOR_GRADIENTS),
            ("discriminator", discriminator, _DISCRIMINATOR_GRADIENTS),
        )
        for name in names
    }
    is_replaced = ((wanted > 0) & (wanted != read)).long()
    arrays = {
        "mlm_logits": logits.gather(1, at),
        "discriminator_logits": rtd["logits"],
        "losses": torch.stack([loss, mlm["loss"].mean(), rtd["loss"].mean()]),
        **gradients,
    }
    np.savez_compressed(
        directory / "io.npz",
        token_ids=masked.numpy().astype(np.int32),
        replaced_token_ids=read.numpy().astype(np.int32),
        padding_mask=padding_mask,
        mask_positions=positions.astype(np.int32),
        # Not read, so of another type than what is.
        wanted=np.take_along_axis(labels, positions, 1).astype(np.int64),
        is_replaced=torch.where(mask > 0, is_replaced, -100).numpy(),
        **{name: value.detach().numpy().astype(np.float32) for name, value in arrays.items()},
    )


def make_buckets(path: pathlib.Path) -> None:
    """The original's buckets of the distances 0 to length - 1, for several sizes."""
    tables = {}
    for buckets, furthest in ((256, 512), (8, 16), (32, 128), (64, 2048), (256, 1024)):
        rows = _original().buckets(furthest + 8, 1, bucket_size=buckets, max_position=furthest)
        tables[f"{buckets}_{furthest}"] = rows[0, :, 0].numpy().astype(np.int32)
    np.savez_compressed(path, **tables)


def segmented_inputs(family, config, rng):
    return batch_inputs(dataclasses.replace(family, has_segments=True), config, rng)
