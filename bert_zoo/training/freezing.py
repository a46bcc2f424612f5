"""Prepares a model for training: frozen or new layers, LoRA, gradient checkpointing, and the first answers of heads."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.error_text import listing
from bert_zoo.fields import check
from bert_zoo.layers.backbones import Groups
from bert_zoo.layers.heads import OutputHead
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.data_adapters import BALANCED, balanced_weights
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.labels import LabelSets, class_weight_table
from bert_zoo.models.task_model import TaskModel
from bert_zoo.private import all_layers
from bert_zoo.tasks.classification import MultiLabelClassifier, Regressor
from bert_zoo.weights.bind import trained_layers, variables_of


def freeze(model: ZooModel, *, embeddings: bool = True, layers: int = 0) -> None:
    """Freezes the embeddings and the lowest layers. Call it before training starts.

    `model.summary()` shows the number of trainable parameters. `.keras` files keep the setting;
    `bert_zoo.save` and `export` do not, so that `load` makes a fully trainable model.

    Args:
        model: any model of the zoo.
        embeddings: whether to freeze the embeddings.
        layers: number of layers to freeze, from the lowest.

    Raises:
        ValueError: the encoder has fewer layers, or higher layers share weights with these.
    """
    encoder_of(model).freeze(embeddings=embeddings, layers=layers)
    forget_functions(model)


def rematerialize(model: ZooModel) -> None:
    """Switches on gradient checkpointing: less memory for a fifth to a third more time.

    Only the input of each block is stored; the rest is recomputed for the gradients. Losses and
    gradients stay the same. Saved models do not keep the setting.

    Args:
        model: any model of the zoo.

    Raises:
        ValueError: the encoder returns attention probabilities, which would have to be stored.
    """
    encoder = encoder_of(model)
    if encoder.output_attentions:
        raise ValueError(
            "Rematerialization does not keep attention probabilities, but this encoder returns them. "
            "Load the model without output_attentions."
        )
    for stack in model.stacks:
        stack.rematerialize = True
    forget_functions(model)


def forget_functions(model: ZooModel) -> None:
    """Makes Keras trace its functions again, after layers have changed."""
    model.train_function = model.test_function = model.predict_function = None


def reinitialize(model: ZooModel, layers: int) -> None:
    """Randomly initialises the encoder's highest layers.

    The highest layers are specific to the pretraining objective. For example, the outputs of ELECTRA's
    discriminator hardly tell more than whether a token was replaced. On small data, fine-tuning is often
    better and varies less if it learns these layers from scratch.

    Args:
        model: any model of the zoo; its heads do not change.
        layers: number of layers, from the highest. The pooler and a final normalization are
            reinitialised with them. 0 changes nothing.

    Raises:
        ValueError: the encoder has fewer layers, lower layers share their weights, or they are frozen
            (by `freeze` or LoRA) and would stay random.

    Source: Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning" (arXiv:2006.05987), section 5.
    """
    encoder = encoder_of(model)
    groups = encoder.backbone.groups()
    note = "the number of this encoder's layers to reinitialize"
    check("layers", layers, int, least=0, most=groups.num_layers, note=note)
    if layers == 0:
        return
    below, above = groups.blocks_around(groups.num_layers - layers)
    if below & above:
        raise ValueError(
            f"The highest {layers} layers cannot be reinitialized alone, because lower layers share their "
            f"weights. Reinitialize all {groups.num_layers} layers, or none."
        )
    weights = _weights(groups, above)
    if not all(weight.trainable for weight in weights):
        raise ValueError(
            f"The highest {layers} layers cannot be reinitialized: they have frozen weights, which would "
            "stay random. Freeze fewer layers, or leave LoRA out."
        )
    new = Encoder(encoder.config, encoder.family).backbone.groups()
    for weight, drawn in zip(weights, _weights(new, above), strict=True):
        weight.assign(drawn)


def _weights(groups: Groups, blocks: Iterable[int]) -> list[keras.Variable]:
    """The weights of these blocks and of the layers on top of the stack."""
    layers = (*(groups.stack.blocks[number] for number in blocks), *groups.top)
    return [weight for layer in layers for weight in layer.weights]


# --- LoRA: trains low-rank updates of frozen kernels (Hu et al. 2021, arXiv:2106.09685) ---


def _attention(block: keras.layers.Layer) -> list[keras.layers.Layer]:
    """A block's attention layers, with a decoder's cross-attention."""
    return [block.attention, *filter(None, [getattr(block, "cross_attention", None)])]


# Value of `targets` -> the parts of a block whose kernels get updates.
TARGETS: dict[str, Callable[[keras.layers.Layer], list[keras.layers.Layer]]] = {
    "attention": _attention,
    "all": lambda block: [block],
}


def add_lora(
    model: ZooModel, rank: int = 8, alpha: float | None = None, targets: str = "attention"
) -> None:
    """Freezes the encoder (and decoder) and trains low-rank updates of its kernels; pooler and head train fully.

    Uses Keras's `Dense.enable_lora`: a kernel W becomes W + alpha / rank * A B, with A [inputs, rank]
    random and B [rank, outputs] zero, so the outputs are the same at first. Query, key and value are
    one kernel here and share A.

    `bert_zoo.save` and `export` merge the updates into W and write an ordinary model. `.keras` files
    merge them too, without the optimizer's state, and in mixed precision with kernels rounded to the
    compute dtype; `bert_zoo.save` keeps float32. `bert_zoo.save(model, directory, format="peft")` writes
    A and B as an adapter of peft, and `TrainingCheckpoint` keeps them for resuming.

    Args:
        model: any model of the zoo, before training starts.
        rank: number of columns of A.
        alpha: numerator of the scale; by default `rank`.
        targets: "attention" for the kernels of attention, "all" for feed-forward layers too.

    Raises:
        ValueError: an argument is invalid, or the model already has LoRA or frozen layers.

    Source: Hu et al. 2021 (arXiv:2106.09685), section 4.
    """
    check("rank", rank, int, least=1)
    check("targets", targets, str, choices=TARGETS)
    encoder = encoder_of(model)
    if any(lora_layers(encoder)):
        raise ValueError("This model already has LoRA. Load it again to choose another rank.")
    untrained = [path for path, is_trained in trained_layers(encoder).items() if not is_trained]
    if untrained:
        raise ValueError(
            f"A part of this model is frozen ({listing(untrained)}), but LoRA freezes the encoder itself. "
            "Use only one of them."
        )
    for part in (encoder.backbone.groups().embeddings, *model.stacks):
        for variable in part.weights:
            # `part.trainable = False` would freeze A and B too.
            variable.trainable = False
    for block in (block for stack in model.stacks for block in stack.blocks):
        layers = (layer for part in TARGETS[targets](block) for layer in all_layers(part))
        for layer in layers:
            if isinstance(layer, keras.layers.Dense):
                layer.enable_lora(rank, lora_alpha=alpha)
    forget_functions(model)


def lora_layers(model: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    return (layer for layer in all_layers(model) if getattr(layer, "lora_enabled", False))


def lora_products(model: ZooModel) -> dict[str, tuple[Any, Any, float]]:
    """Path of each kernel with LoRA -> its variables A and B and their scale."""
    scales = {
        id(weight): layer.lora_alpha / layer.lora_rank
        for layer in lora_layers(model)
        for weight in layer.weights
        if re.fullmatch(r"lora_\w+_a", weight.name)
    }
    values = variables_of(model)
    products = {}
    for path in values:
        parent, name = path.rpartition("/")[::2]
        a, b = (values.get(f"{parent}/lora_{name}_{side}") for side in "ab")
        if a is not None:
            products[path] = a, b, scales[id(a)]
    return products


def without_lora(model: ZooModel) -> ZooModel:
    """The model itself if it has no LoRA, else a copy with LoRA merged into its kernels."""
    products = lora_products(model)
    if not products:
        return model
    copy = type(model).from_config(model.get_config())
    encoder_of(copy)._preprocessor = encoder_of(model)._preprocessor
    values = variables_of(model)
    for path, variable in variables_of(copy).items():
        value = values[path].value
        if path in products:
            a, b, scale = products[path]
            value = value + ops.cast(scale * ops.matmul(a.value, b.value), variable.dtype)
        variable.assign(value)
    return copy


def trained_in_full(model: ZooModel) -> set[str]:
    """The paths of the pooler's and head's variables in a model with LoRA."""
    embeddings = encoder_of(model).backbone.groups().embeddings
    variables = variables_of(model)
    below = {id(v) for part in (embeddings, *model.stacks) for v in part.weights}
    others = [
        path
        for path, variable in variables.items()
        if id(variable) in below and variable.trainable and "/lora_" not in path
    ]
    if others:
        raise ValueError(
            f"{listing(others)} is trained in addition to LoRA, which an adapter of peft cannot hold. Save the "
            "whole model."
        )
    return {path for path, variable in variables.items() if id(variable) not in below}


# --- Heads that start with predictions that are right on average; weights of classes in the loss ---
# Heads without a bias, such as GPT's, stay as they are.


def class_weights(
    setting: str | Mapping[str, float], labels: Sequence[int], label_names: Sequence[str]
) -> dict[int, float]:
    """The class weights of a recipe, by class id, for the class ids `labels` [N] of the training rows.

    `setting` is "balanced", which gives every class the same total weight and keeps the sum over all rows; or weights
    by class name, as a mapping or as "no=1,yes=5"; missing classes get 1.
    """
    if setting == BALANCED:
        counts = np.bincount(labels, minlength=len(label_names))
        return dict(enumerate(balanced_weights(counts).tolist()))
    is_mapping = isinstance(setting, Mapping)
    spelled = setting if is_mapping else dict(p.rpartition("=")[::2] for p in setting.split(","))
    try:
        given = {name: float(weight) for name, weight in spelled.items()}
    except (TypeError, ValueError):
        given = {}
    if not given or not all(0 < weight < float("inf") for weight in given.values()):
        raise ValueError(
            f"class_weight is {setting!r}; it must be 'balanced', or positive numbers by class, such as "
            "'no=1,yes=5' or {'no': 1, 'yes': 5}."
        )
    return dict(enumerate(class_weight_table(given, label_names).tolist()))


def start_from_frequencies(model: MultiLabelClassifier, labels: Any) -> None:
    """Sets the head's biases so that the initial probabilities are the labels' frequencies.

    With biases of zero, training first lowers all logits of rare labels. This also changes the encoder:
    at BERT's higher learning rates its outputs for all texts become the same.

    Args:
        model: a model with a randomly initialised head; a trained head would lose its biases.
        labels: the labels of the training texts, as for `fit`.

    Raises:
        ValueError: a label is unknown.

    Source: Lin et al. 2017, "Focal Loss for Dense Object Detection", section 3.3, which takes one
    frequency for all labels.
    """
    rows = LabelSets(model.labels).numbers(labels, "label")
    # Count one more text with each label and one without, so that no logit is infinite.
    frequencies = (rows.sum(axis=0) + 1) / (len(rows) + 2)
    _set_bias(model, np.log(frequencies / (1 - frequencies)))


def start_from_mean(model: Regressor, scores: Sequence[float]) -> None:
    """Sets the head's bias to the mean of the scores.

    With a bias of zero, training first learns the mean, for most of an epoch at BERT's learning rates.

    Args:
        model: a model with a randomly initialised head; a trained head would lose its bias.
        scores: the scores of the training texts.

    Source: measured by this project: docs/measured/finetuning.md, "Which settings are the default".
    """
    _set_bias(model, [np.mean(scores)])


def set_head_range(model: TaskModel, heads: Sequence[str], initializer_range: float) -> None:
    """Scales the kernels of randomly initialised heads to another standard deviation.

    Small kernels make small logits and small gradients for the encoder. For example, minilm_l6's pooled
    outputs have a root mean square of 0.06. With BERT's range of 0.02, its logits differ by hundredths,
    and it takes tens of updates until it distinguishes texts.

    Args:
        model: a model with randomly initialised heads; trained heads would change.
        heads: attributes of the model that hold its heads, such as "classifier".
        initializer_range: standard deviation before the distribution is truncated, as in the
            configuration.

    Raises:
        ValueError: a head has several layers of logits.

    Source: measured by this project: docs/measured/finetuning.md, "Which settings are the default".
    """
    factor = initializer_range / model.encoder.config.initializer_range
    for name in heads:
        head = getattr(model, name)
        if not isinstance(head, OutputHead):
            raise ValueError(
                f"head_initializer_range is {initializer_range!r}, but the head of task {model.task!r} has "
                "several layers of logits. Leave it out."
            )
        head.dense.kernel.assign(head.dense.kernel * factor)


def _set_bias(model: MultiLabelClassifier | Regressor, values: Sequence[float]) -> None:
    if model.classifier.dense.bias is not None:
        model.classifier.dense.bias.assign(values)
