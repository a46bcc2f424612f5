"""Makes the golden checkpoints of Transformer-XL and what three references compute with them.

Each case is a tiny checkpoint with seeded random weights, written as the files in circulation are,
and three segments that the reference scores one after the other, its memory carried on, after it
has loaded that very directory. No environment has all three references, so that this is run once for
each:

    git clone https://github.com/kimiyoung/transformer-xl    # 44781ed
    python3.11 -m venv golden-xl
    golden-xl/bin/pip install torch transformers==4.35.2 safetensors absl-py
    golden-xl/bin/python tools/references/golden_transformer_xl.py --reference=hf
    golden-xl/bin/python tools/references/golden_transformer_xl.py --reference=torch --original_dir=transformer-xl

and in an environment with TensorFlow 2:

    python tools/references/golden_transformer_xl.py --reference=tf --original_dir=transformer-xl

4.35 is the last transformers before the model was deprecated. The original code (Apache-2.0) is read
from the directory that the caller names and is not kept; what it needs of old versions of torch and
TensorFlow is replaced for the time of the run.

Everything is computed in float64 and stored as float32, so that a difference found by a test is the
tested model's own; but the sinusoids of the positions are float32, as the references have them, since
those of float64 are another function of large distances.

Unlike the other families' programs this one cannot import golden_case.py, which needs torch and
transformers 5.
"""

import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import json
import pathlib
import sys
import types
from collections.abc import Iterator
from unittest import mock

import numpy as np
from absl import app, flags, logging
from golden_files import empty_directory, random_generator, write_json
from tensorflow1 import TensorFlow1

_REFERENCE = flags.DEFINE_enum(
    "reference", None, ["hf", "torch", "tf"], "Whose cases to make.", required=True
)
_ORIGINAL_DIR = flags.DEFINE_string(
    "original_dir", None, "The original repository, for the references torch and tf."
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "tests/golden/transformer_xl", "Directory that receives the cases."
)
_CASES = flags.DEFINE_list("cases", [], "What to make; by default every case of the reference.")

# The generic tests go through each family's cases.json, and these cases have other arrays.
CASE_LIST = "recurrent_cases.json"
_PACKAGES = {
    "hf": ("numpy", "safetensors", "torch", "transformers"),
    "torch": ("numpy", "safetensors", "torch"),
    "tf": ("numpy", "tensorflow"),
}

# --- What a case is ------------------------------------------------------------------------------

# In the keys of transformers' config.json. The heads are not as wide together as the model.
_TINY_CONFIG = {
    "vocab_size": 50,
    "cutoffs": [12, 22, 34],
    "d_model": 16,
    "d_embed": 16,
    "n_head": 3,
    "d_head": 6,
    "d_inner": 24,
    "div_val": 2,
    "pre_lnorm": False,
    "n_layer": 2,
    "mem_len": 8,
    "clamp_len": -1,
    "same_length": False,
    "proj_share_all_but_first": True,
    "adaptive": True,
    "dropout": 0.1,
    "dropatt": 0.05,
    "untie_r": True,
}
# Arguments that have the same name in the original programs.
_SAME = (
    *("n_layer", "d_model", "d_embed", "n_head", "d_head", "d_inner", "dropout", "dropatt"),
    *("mem_len", "cutoffs", "div_val", "same_length", "clamp_len"),
)
_PLAIN = {"cutoffs": [], "div_val": 1, "adaptive": False}
_NUM_SEGMENTS, _BATCH = 3, 3


@dataclasses.dataclass(frozen=True)
class Case:
    """One directory: a checkpoint and what its reference computes with it."""

    name: str  # the directory's name
    about: str  # what the case shows, in one sentence
    # What computes it, where it is not the reference's `model_class`.
    model_class: str | None = None
    task: str = "causal_lm"  # "causal_lm", or "encoder" without a softmax
    # What differs from the tiny config, in transformers' keys; proj_same_dim is the TensorFlow
    # program's.
    config: dict = dataclasses.field(default_factory=dict)
    file: str = "model.safetensors"  # name of the file with the weights
    segment_length: int = 6  # tokens of a segment
    gradients: tuple[str, ...] = ()  # names of the parameters whose gradients are stored

    @property
    def full_config(self) -> dict:
        return _TINY_CONFIG | self.config

    @property
    def tie_projs(self) -> list[bool]:
        """For each cluster, whether it leaves through the projection of its embeddings."""
        config = self.full_config
        return [False] + [config["proj_share_all_but_first"]] * len(config["cutoffs"])


CASES = {
    "hf": (
        Case(
            "hf_adaptive",
            "As transfo-xl-wt103: clusters of falling width, tied projections but the first, u and v of "
            "each layer, clamped distances, the same number of keys for every query.",
            config={"same_length": True, "clamp_len": 5},
            gradients=(
                "transformer.word_emb.emb_layers.3.weight",
                "transformer.word_emb.emb_projs.3",
                "transformer.layers.0.dec_attn.qkv_net.weight",
                "transformer.layers.1.dec_attn.r_net.weight",
                "transformer.layers.0.dec_attn.r_w_bias",
                "transformer.layers.1.dec_attn.r_r_bias",
                "crit.cluster_weight",
                "crit.out_projs.0",
            ),
        ),
        Case(
            "hf_plain",
            "A plain softmax behind a projection of its own, u and v of all layers together; only a .bin file.",
            config=_PLAIN | {"d_embed": 12, "untie_r": False},
            file="pytorch_model.bin",
            gradients=(
                "transformer.word_emb.emb_layers.0.weight",
                "transformer.word_emb.emb_projs.0",
                "transformer.layers.0.dec_attn.qkv_net.weight",
                "transformer.layers.1.dec_attn.r_net.weight",
                "transformer.r_w_bias",
                "transformer.r_r_bias",
                "crit.out_layers.0.bias",
                "crit.out_projs.0",
            ),
        ),
        Case(
            "hf_div1",
            "Clusters that share one table, each with an output projection of its own.",
            config={"div_val": 1, "d_embed": 12, "proj_share_all_but_first": False},
        ),
        Case(
            "hf_pre_lnorm",
            "Norms before the sublayers, and softmax tables that are not the embeddings'.",
            config={"pre_lnorm": True, "tie_word_embeddings": False},
        ),
        Case(
            "hf_encoder",
            "The bare model: names without `transformer.`, no softmax.",
            model_class="TransfoXLModel",
            task="encoder",
            config={"same_length": True},
        ),
        Case(
            "hf_long",
            "A memory shorter than a segment, on which every query sees the same number of keys.",
            config={"mem_len": 4, "same_length": True},
            segment_length=7,
        ),
    ),
    "torch": (
        Case(
            "torch_adaptive",
            "Clusters of falling width, whose columns run backwards in the head.",
            config={"clamp_len": 5, "untie_r": False},
            gradients=(
                "word_emb.emb_layers.3.weight",
                "word_emb.emb_projs.3",
                "layers.0.dec_attn.qkv_net.weight",
                "layers.1.dec_attn.r_net.weight",
                "r_w_bias",
                "r_r_bias",
                "crit.cluster_weight",
                "crit.out_projs.0",
            ),
        ),
        Case(
            "torch_same_length",
            "A plain softmax and norms before the sublayers, under the original's parameter names.",
            config=_PLAIN | {"same_length": True, "pre_lnorm": True, "untie_r": False},
        ),
        Case(
            "torch_tied",
            "Clusters of one table whose output projections but the first are tied.",
            config={"div_val": 1, "d_embed": 12, "untie_r": False},
        ),
    ),
    "tf": (
        Case(
            "tf1_wt103",
            "As the released wt103: clusters of falling width, all projected, tied but the first.",
            config={"same_length": True, "clamp_len": 5, "proj_same_dim": True},
            gradients=(
                "transformer/adaptive_embed/cutoff_3/lookup_table",
                "transformer/adaptive_embed/cutoff_3/proj_W",
                "transformer/layer_0/rel_attn/qkv/kernel",
                "transformer/layer_1/rel_attn/r/kernel",
                "transformer/r_w_bias",
                "transformer/r_r_bias",
                "transformer/adaptive_softmax/cutoff_0/cluster_W",
                "transformer/adaptive_softmax/cutoff_0/proj",
            ),
        ),
        Case(
            "tf1_lm1b",
            "As the released lm1b: the first cluster is not projected, and no projections are tied.",
            config={
                "cutoffs": [12, 30],
                "div_val": 4,
                "same_length": True,
                "proj_share_all_but_first": False,
                "proj_same_dim": False,
            },
        ),
        Case(
            "tf1_enwik8",
            "As the released enwik8: a plain softmax, u and v of all layers together.",
            config=_PLAIN | {"same_length": True, "untie_r": False, "proj_same_dim": True},
        ),
        Case(
            "tf1_div1",
            "Clusters that share one table, of another width than the model, with the projection tied "
            "but for the first cluster.",
            config={"div_val": 1, "d_embed": 12, "proj_same_dim": True},
        ),
    ),
}

# --- Weights and inputs --------------------------------------------------------------------------


def random_weight(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """So far from the usual start that a misplaced one shows."""
    is_norm_scale = name.endswith(("layer_norm.weight", "LayerNorm/gamma"))
    return rng.normal(1.0 if is_norm_scale else 0.0, 0.25, shape).astype(np.float32)


def _random_ids(case: Case, rng: np.random.Generator) -> np.ndarray:
    """[segments, batch, length], each segment with the first and the last id of every cluster.

    The originals' code needs two ids of a cluster where it has any.
    """
    config = case.full_config
    bounds = [0, *config["cutoffs"], config["vocab_size"]]
    edges = [*bounds[:-1], *(bound - 1 for bound in bounds[1:])]
    segments = []
    for _ in range(_NUM_SEGMENTS):
        clusters = rng.integers(0, len(bounds) - 1, _BATCH * case.segment_length - len(edges))
        ids = [rng.integers(bounds[cluster], bounds[cluster + 1]) for cluster in clusters]
        segments.append(rng.permutation(edges + ids).reshape(_BATCH, case.segment_length))
    return np.stack(segments).astype(np.int32)


# --- The references ------------------------------------------------------------------------------
# Each has `write(case, directory, rng)` and is made from a case and its directory, and then has
#   run(token_ids, labels, memory)
#       arrays of one segment, batch first, and the memory for the next; None is the start;
#   memory_array(memory)  [layers, batch, memory, d_model];
#   gradients(token_ids, labels, memory, names)  the mean loss of a segment and its gradients.


def _randomize_torch(model, rng: np.random.Generator) -> None:
    import torch

    for name, parameter in model.named_parameters():
        parameter.data = torch.from_numpy(random_weight(name, tuple(parameter.shape), rng))


def _widen(model) -> None:
    """Makes a torch model one of float64, but for the sinusoids of its positions."""
    import torch

    positions = model.get_submodule(
        "transformer.pos_emb" if hasattr(model, "transformer") else "pos_emb"
    )
    model.double().eval()
    positions.float()
    positions.register_forward_pre_hook(lambda _, given: (given[0].to(torch.float32),))
    positions.register_forward_hook(lambda _, given, sinusoids: sinusoids.to(torch.float64))


@contextlib.contextmanager
def _without_narrowing() -> Iterator[None]:
    """Masks, which the references make of bytes and apply in float32, as torch and float64 want them."""
    import torch

    with (
        mock.patch.object(torch.Tensor, "float", lambda tensor: tensor),
        mock.patch.object(torch.Tensor, "byte", torch.Tensor.bool),
    ):
        yield


def _require_same_weights(written, loaded, directory: pathlib.Path) -> None:
    theirs = loaded.state_dict()
    changed = [
        name for name, value in written.state_dict().items() if not value.equal(theirs[name])
    ]
    if changed:
        raise ValueError(f"{directory} does not give back what was written: {changed}.")


def _batch_first(tensor) -> np.ndarray:
    """[length, batch, ...] to [batch, length, ...]."""
    return np.swapaxes(np.asarray(tensor), 0, 1)


def _arrays(losses, hidden_states) -> dict[str, np.ndarray]:
    """What the originals give for a segment: [length, batch] and, of each layer, [length, batch, d_model]."""
    return {
        "log_probs": -_batch_first(losses),
        "hidden_states": np.stack([_batch_first(states) for states in hidden_states]),
        "sequence_output": _batch_first(hidden_states[-1]),
    }


class HuggingFace:
    """transformers' TransfoXLModel and TransfoXLLMHeadModel."""

    model_class = "TransfoXLLMHeadModel"

    @staticmethod
    def write(case: Case, directory: pathlib.Path, rng: np.random.Generator) -> None:
        import transformers

        config = transformers.TransfoXLConfig(**case.full_config)
        model = getattr(transformers, case.model_class or HuggingFace.model_class)(config)
        _randomize_torch(model, rng)
        model.tie_weights()
        model.save_pretrained(directory, safe_serialization=case.file.endswith("safetensors"))
        _require_same_weights(model, HuggingFace._read(case, directory), directory)

    @staticmethod
    def _read(case: Case, directory: pathlib.Path):
        import transformers

        model, found = getattr(
            transformers, case.model_class or HuggingFace.model_class
        ).from_pretrained(directory, output_loading_info=True)
        if any(found.values()):
            raise ValueError(f"transformers does not read {directory} as it was meant: {found}.")
        return model

    def __init__(self, case: Case, directory: pathlib.Path):
        self._model = self._read(case, directory)
        self._has_softmax = case.task == "causal_lm"
        _widen(self._model)

    def _outputs(self, token_ids: np.ndarray, memory):
        import torch

        with _without_narrowing():
            return self._model(
                torch.from_numpy(token_ids).long(),
                mems=memory,
                output_hidden_states=True,
                output_attentions=True,
            )

    def _log_probs(self, outputs, labels: np.ndarray):
        import torch

        wanted = torch.from_numpy(labels).long()
        return outputs.prediction_scores.gather(-1, wanted[..., None])[..., 0]

    def run(self, token_ids: np.ndarray, labels: np.ndarray | None, memory):
        import torch

        with torch.no_grad():
            outputs = self._outputs(token_ids, memory)
            arrays = {
                "hidden_states": torch.stack(outputs.hidden_states).numpy(),
                "sequence_output": outputs.hidden_states[-1].numpy(),
                "attentions": torch.stack(outputs.attentions).numpy(),
            }
            if self._has_softmax:
                arrays["log_probs"] = self._log_probs(outputs, labels).numpy()
                arrays["vocab_log_probs"] = outputs.prediction_scores.numpy()
        return arrays, outputs.mems

    def memory_array(self, memory) -> np.ndarray:
        return np.stack([_batch_first(layer) for layer in memory])

    def gradients(
        self, token_ids: np.ndarray, labels: np.ndarray, memory, names: tuple[str, ...]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        loss = -self._log_probs(self._outputs(token_ids, memory), labels).mean()
        return _torch_gradients(loss, self._model, names)


def _torch_gradients(loss, model, names: tuple[str, ...]):
    import torch

    parameters = dict(model.named_parameters())
    values = torch.autograd.grad(loss, [parameters[name] for name in names])
    named = zip(names, values, strict=True)
    return loss.detach().numpy(), {name: value.numpy() for name, value in named}


@functools.cache
def _original_torch_class():
    """The class, in modules named as the original's own programs import them."""
    import torch

    directory = pathlib.Path(_ORIGINAL_DIR.value) / "pytorch"
    sys.path[:0] = [str(directory), str(directory / "utils")]
    # It takes the version apart, and does nothing with it; a build for the CPU has none.
    with mock.patch.object(torch.version, "cuda", "10.0"):
        return importlib.import_module("mem_transformer").MemTransformerLM


class OriginalTorch:
    """MemTransformerLM of the original PyTorch code."""

    model_class = "MemTransformerLM"

    @staticmethod
    def _build(case: Case):
        config = case.full_config
        return _original_torch_class()(
            n_token=config["vocab_size"],
            tie_weight=True,
            tie_projs=case.tie_projs,
            tgt_len=case.segment_length,
            ext_len=0,
            **{name: config[name] for name in (*_SAME, "pre_lnorm")},
        )

    @staticmethod
    def write(case: Case, directory: pathlib.Path, rng: np.random.Generator) -> None:
        model = OriginalTorch._build(case)
        _randomize_torch(model, rng)
        OriginalTorch._write_safetensors(model, directory / case.file)
        write_json(directory / "config.json", {"model_type": "transfo-xl"} | case.full_config)
        _require_same_weights(model, OriginalTorch._read(case, directory), directory)

    @staticmethod
    def _write_safetensors(model, path: pathlib.Path) -> None:
        """Tied tensors once, under the name that comes first, which is the embeddings'."""
        import safetensors.torch

        tensors = dict(model.named_parameters()) | dict(model.named_buffers())
        safetensors.torch.save_file({name: value.data for name, value in tensors.items()}, path)

    @staticmethod
    def _read(case: Case, directory: pathlib.Path):
        import safetensors.torch

        model = OriginalTorch._build(case)
        tensors = safetensors.torch.load_file(directory / case.file)
        model.load_state_dict(tensors, strict=False)
        return model

    def __init__(self, case: Case, directory: pathlib.Path):
        self._model = self._read(case, directory)
        self._model.crit.keep_order = True
        _widen(self._model)

    def _outputs(self, token_ids: np.ndarray, labels: np.ndarray, memory):
        """Losses [length, batch], hidden states [layers + 1][length, batch, d_model], memory."""
        import torch

        hidden_states = []
        hooks = [
            module.register_forward_hook(lambda _, given, output: hidden_states.append(output))
            for module in (self._model.word_emb, *self._model.layers)
        ]
        ids, wanted = (torch.from_numpy(array.T.copy()).long() for array in (token_ids, labels))
        with _without_narrowing():
            losses, *memory = self._model(ids, wanted, *(memory or ()))
        for hook in hooks:
            hook.remove()
        return losses, hidden_states, memory

    def run(self, token_ids: np.ndarray, labels: np.ndarray, memory):
        import torch

        with torch.no_grad():
            losses, hidden_states, memory = self._outputs(token_ids, labels, memory)
        return _arrays(losses, hidden_states), memory

    def memory_array(self, memory) -> np.ndarray:
        """Without the last layer's output, which the original keeps and does not read."""
        return np.stack([_batch_first(layer) for layer in memory[:-1]])

    def gradients(self, token_ids: np.ndarray, labels: np.ndarray, memory, names: tuple[str, ...]):
        loss = self._outputs(token_ids, labels, memory)[0].mean()
        return _torch_gradients(loss, self._model, names)


class OriginalTensorFlow:
    """The function `transformer` of tf/model.py, as tf/train_gpu.py calls it."""

    model_class = "transformer"

    @staticmethod
    def write(case: Case, directory: pathlib.Path, rng: np.random.Generator) -> None:
        import tensorflow as tf

        v1 = tf.compat.v1
        graph = _TensorFlowGraph(case, tf.float32)
        with graph.graph.as_default(), v1.Session() as session:
            step = v1.train.get_or_create_global_step()
            v1.train.AdamOptimizer().minimize(v1.reduce_mean(graph.losses), step)
            for variable in v1.global_variables():
                value = random_weight(variable.op.name, tuple(variable.shape), rng)
                if variable.op.name.endswith("/Adam_1"):  # of squares
                    value = np.abs(value)
                if variable is step:
                    value = 100
                variable.load(value, session)
            saver = v1.train.Saver()
            prefix = str(directory / "model.ckpt")
            saver.save(session, prefix, global_step=1, write_meta_graph=False, write_state=False)
        write_json(directory / "config.json", {"model_type": "transfo-xl"} | case.full_config)

    def __init__(self, case: Case, directory: pathlib.Path):
        import tensorflow as tf

        self._graph = _TensorFlowGraph(case, tf.float64)
        self._session = tf.compat.v1.Session(graph=self._graph.graph)
        reader = tf.train.load_checkpoint(str(directory / "model.ckpt-1"))
        with self._graph.graph.as_default():
            for variable in tf.compat.v1.global_variables():
                variable.load(reader.get_tensor(variable.op.name).astype(np.float64), self._session)

    def _compute(self, wanted, token_ids: np.ndarray, labels: np.ndarray, memory):
        graph = self._graph
        given = {graph.token_ids: token_ids.T, graph.labels: labels.T}
        if memory is None:
            memory = [np.zeros(layer.shape) for layer in graph.memory]
        return self._session.run(wanted, given | dict(zip(graph.memory, memory, strict=True)))

    def run(self, token_ids: np.ndarray, labels: np.ndarray, memory):
        graph = self._graph
        wanted = graph.losses, graph.hidden_states, graph.new_memory
        losses, hidden_states, memory = self._compute(wanted, token_ids, labels, memory)
        return _arrays(losses, hidden_states), memory

    def memory_array(self, memory) -> np.ndarray:
        return np.stack([_batch_first(layer) for layer in memory])

    def gradients(self, token_ids: np.ndarray, labels: np.ndarray, memory, names: tuple[str, ...]):
        import tensorflow as tf

        v1 = tf.compat.v1
        with self._graph.graph.as_default():
            variables = {variable.op.name: variable for variable in v1.global_variables()}
            loss = tf.reduce_mean(self._graph.losses)
            gradients = v1.gradients(loss, [variables[name] for name in names])
            dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        loss, values = self._compute((loss, dense), token_ids, labels, memory)
        return loss, dict(zip(names, values, strict=True))


class _TensorFlowGraph:
    """The original's graph for segments of one shape, length first as it has them.

    Attributes:
        graph: The graph.
        token_ids, labels: Placeholders [length, batch].
        memory: One placeholder a layer, [mem_len, batch, d_model].
        losses: [length, batch].
        hidden_states: The embeddings' output and each layer's, [length, batch, d_model].
        new_memory: One tensor a layer.
    """

    def __init__(self, case: Case, dtype):
        import tensorflow as tf

        v1, config = tf.compat.v1, case.full_config
        self.graph = tf.Graph()
        self.hidden_states = []
        original = self._import_original(dtype)
        with self.graph.as_default():
            segment = [case.segment_length, _BATCH]
            self.token_ids = v1.placeholder(tf.int32, segment)
            self.labels = v1.placeholder(tf.int32, segment)
            layer = [config["mem_len"], _BATCH, config["d_model"]]
            self.memory = [v1.placeholder(dtype, layer) for _ in range(config["n_layer"])]
            self.losses, self.new_memory = original.transformer(
                dec_inp=self.token_ids,
                target=self.labels,
                mems=self.memory,
                n_token=config["vocab_size"],
                initializer=v1.zeros_initializer(),
                is_training=False,
                tie_projs=case.tie_projs,
                use_tpu=False,
                proj_same_dim=config["proj_same_dim"],
                **{name: config[name] for name in (*_SAME, "untie_r")},
            )

    def _import_original(self, dtype) -> types.ModuleType:
        """The module, with what it does not return kept here and its positions widened."""
        import tensorflow as tf

        path = pathlib.Path(_ORIGINAL_DIR.value) / "tf" / "model.py"
        spec = importlib.util.spec_from_file_location("transformer_xl_original", path)
        module = importlib.util.module_from_spec(spec)
        with mock.patch.dict(sys.modules, {"tensorflow": TensorFlow1(dtype)}):
            spec.loader.exec_module(module)

        attend, feed_forward = module.rel_multihead_attn, module.positionwise_FF
        positional_embedding = module.positional_embedding
        softmax = module.mask_adaptive_logsoftmax

        def rel_multihead_attn(w, **arguments):
            if not self.hidden_states:
                self.hidden_states.append(w)
            return attend(w, **arguments)

        def positionwise_feed_forward(**arguments):
            self.hidden_states.append(feed_forward(**arguments))
            return self.hidden_states[-1]

        module.rel_multihead_attn = rel_multihead_attn
        module.positionwise_FF = positionwise_feed_forward
        module.positional_embedding = lambda *given: tf.cast(positional_embedding(*given), dtype)
        module.mask_adaptive_logsoftmax = functools.partial(softmax, return_mean=False)
        return module


REFERENCES = {"hf": HuggingFace, "torch": OriginalTorch, "tf": OriginalTensorFlow}

# --- Making a case -------------------------------------------------------------------------------


def reference_arrays(case: Case, reference, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs and outputs of all segments; what is stacked has the segments first."""
    inputs = {"token_ids": _random_ids(case, rng)}
    if case.task == "causal_lm":
        inputs["labels"] = _random_ids(case, rng)
    labels = inputs.get("labels", [None] * _NUM_SEGMENTS)

    memory, segments, memories, arrays = None, [], {}, {}
    for number, segment in enumerate(zip(inputs["token_ids"], labels, strict=True)):
        if case.gradients and number == _NUM_SEGMENTS - 1:
            loss, gradients = reference.gradients(*segment, memory, case.gradients)
            arrays |= {"loss": loss}
            arrays |= {f"gradient:{name}": value for name, value in gradients.items()}
        outputs, memory = reference.run(*segment, memory)
        segments.append(outputs)
        memories[f"memory_{number}"] = reference.memory_array(memory)
    arrays |= memories
    arrays |= {name: np.stack([outputs[name] for outputs in segments]) for name in segments[0]}
    return inputs | {name: np.asarray(value, np.float32) for name, value in arrays.items()}


def make_case(reference_class: type, case: Case, directory: pathlib.Path) -> None:
    empty_directory(directory)
    rng = random_generator(case.name)
    reference_class.write(case, directory, rng)
    arrays = reference_arrays(case, reference_class(case, directory), rng)
    np.savez_compressed(directory / "io.npz", **arrays)


def write_case_list(path: pathlib.Path, reference: str) -> None:
    """What each directory shows, for the tests to go through, and what made those of each reference."""
    earlier = json.loads(path.read_text())["made_with"] if path.exists() else {}
    versions = {package: importlib.metadata.version(package) for package in _PACKAGES[reference]}
    listing = {
        case.name: {
            "about": case.about,
            "task": case.task,
            "model_class": case.model_class or REFERENCES[its_reference].model_class,
            "reference": its_reference,
            "config": case.full_config,
        }
        for its_reference, cases in CASES.items()
        for case in cases
    }
    write_json(path, {"made_with": earlier | {reference: versions}, "cases": listing})


def prepare(reference: str) -> None:
    """One thread, which sums in the same order on every machine; and no warnings of the references."""
    if reference == "tf":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.compat.v1.disable_eager_execution()
        tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    else:
        import torch

        torch.set_num_threads(1)
    if reference == "hf":
        import transformers

        transformers.utils.logging.set_verbosity_error()


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    reference = _REFERENCE.value
    if reference != "hf" and _ORIGINAL_DIR.value is None:
        raise app.UsageError(
            f"The reference {reference} is the original code: give --original_dir."
        )
    cases = {case.name: case for case in CASES[reference]}
    unknown = sorted(set(_CASES.value) - set(cases))
    if unknown:
        raise app.UsageError(f"Unknown cases {unknown}; {reference} has {sorted(cases)}.")

    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    prepare(reference)
    for name in _CASES.value or cases:
        make_case(REFERENCES[reference], cases[name], output_dir / name)
        logging.info("%s: done.", name)
    write_case_list(output_dir / CASE_LIST, reference)


if __name__ == "__main__":
    app.run(main)
