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

import argparse
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
from golden_files import GOLDEN, empty_directory, random_generator, write_json
from tensorflow1 import TensorFlow1

ORIGINAL: pathlib.Path | None = None  # the original repository
# The generic tests go through each family's cases.json, and these cases have other arrays.
CASE_LIST = GOLDEN / "transformer_xl" / "recurrent_cases.json"
_PACKAGES = {
    "hf": ("numpy", "safetensors", "torch", "transformers"),
    "torch": ("numpy", "safetensors", "torch"),
    "tf": ("numpy", "tensorflow"),
}

# --- What a case is ------------------------------------------------------------------------------

# Arguments that have the same name in the original programs.
_SAME = (
    *("n_layer", "d_model", "d_embed", "n_head", "d_head", "d_inner", "dropout", "dropatt"),
    *("mem_len", "cutoffs", "div_val", "same_length", "clamp_len"),
)
_NUM_SEGMENTS, _BATCH = 3, 3


@dataclasses.dataclass(frozen=True)
class Case:
    """One directory: a checkpoint and what its reference computes with it.

    The first fields are those of recurrent_cases.json, which says what the case shows.
    """

    name: str  # the directory's name
    task: str  # "causal_lm", or "encoder" without a softmax
    model_class: str  # what computes it
    # In the keys of transformers' config.json; proj_same_dim is the TensorFlow program's.
    config: dict
    file: str = "model.safetensors"  # name of the file with the weights
    segment_length: int = 6  # tokens of a segment
    gradients: tuple[str, ...] = ()  # names of the parameters whose gradients are stored

    @property
    def tie_projs(self) -> list[bool]:
        """For each cluster, whether it leaves through the projection of its embeddings."""
        return [False] + [self.config["proj_share_all_but_first"]] * len(self.config["cutoffs"])


_TRANSFORMER = "transformer."
_LAYERS = "layers.0.dec_attn.qkv_net.weight layers.1.dec_attn.r_net.weight"
_ADAPTIVE = f"word_emb.emb_layers.3.weight word_emb.emb_projs.3 {_LAYERS}"
_PLAIN = f"word_emb.emb_layers.0.weight word_emb.emb_projs.0 {_LAYERS}"
_SHARED, _EACH = "r_w_bias r_r_bias", "layers.0.dec_attn.r_w_bias layers.1.dec_attn.r_r_bias"


def _names(below: str, names: str, more: str) -> tuple[str, ...]:
    return (*(f"{below}{name}" for name in names.split()), *more.split())


# What some cases have besides what is listed.
OWN = {
    "hf_adaptive": {
        "gradients": _names(
            _TRANSFORMER, f"{_ADAPTIVE} {_EACH}", "crit.cluster_weight crit.out_projs.0"
        )
    },
    "hf_plain": {
        "file": "pytorch_model.bin",
        "gradients": _names(
            _TRANSFORMER, f"{_PLAIN} {_SHARED}", "crit.out_layers.0.bias crit.out_projs.0"
        ),
    },
    "hf_long": {"segment_length": 7},
    "torch_adaptive": {
        "gradients": _names("", f"{_ADAPTIVE} {_SHARED}", "crit.cluster_weight crit.out_projs.0")
    },
    "tf1_wt103": {
        "gradients": _names(
            "transformer/",
            """adaptive_embed/cutoff_3/lookup_table adaptive_embed/cutoff_3/proj_W
            layer_0/rel_attn/qkv/kernel layer_1/rel_attn/r/kernel r_w_bias r_r_bias
            adaptive_softmax/cutoff_0/cluster_W adaptive_softmax/cutoff_0/proj""",
            "",
        )
    },
}


def listed_cases(reference: str) -> list[Case]:
    listed = json.loads(CASE_LIST.read_text())["cases"]
    fields = ("task", "model_class", "config")
    return [
        Case(name, **{field: about[field] for field in fields}, **OWN.get(name, {}))
        for name, about in listed.items()
        if about["reference"] == reference
    ]


# --- Weights and inputs --------------------------------------------------------------------------


def random_weight(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """So far from the usual start that a misplaced one shows."""
    is_norm_scale = name.endswith(("layer_norm.weight", "LayerNorm/gamma"))
    return rng.normal(1.0 if is_norm_scale else 0.0, 0.25, shape).astype(np.float32)


def _random_ids(case: Case, rng: np.random.Generator) -> np.ndarray:
    """[segments, batch, length], each segment with the first and the last id of every cluster.

    The originals' code needs two ids of a cluster where it has any.
    """
    config = case.config
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

    @staticmethod
    def write(case: Case, directory: pathlib.Path, rng: np.random.Generator) -> None:
        import transformers

        config = transformers.TransfoXLConfig(**case.config)
        model = getattr(transformers, case.model_class)(config)
        _randomize_torch(model, rng)
        model.tie_weights()
        model.save_pretrained(directory, safe_serialization=case.file.endswith("safetensors"))
        _require_same_weights(model, HuggingFace._read(case, directory), directory)

    @staticmethod
    def _read(case: Case, directory: pathlib.Path):
        import transformers

        model_class = getattr(transformers, case.model_class)
        model, found = model_class.from_pretrained(directory, output_loading_info=True)
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

    directory = ORIGINAL / "pytorch"
    sys.path[:0] = [str(directory), str(directory / "utils")]
    # It takes the version apart, and does nothing with it; a build for the CPU has none.
    with mock.patch.object(torch.version, "cuda", "10.0"):
        return importlib.import_module("mem_transformer").MemTransformerLM


class OriginalTorch:
    """MemTransformerLM of the original PyTorch code."""

    @staticmethod
    def _build(case: Case):
        config = case.config
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
        write_json(directory / "config.json", {"model_type": "transfo-xl"} | case.config)
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
        write_json(directory / "config.json", {"model_type": "transfo-xl"} | case.config)

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

        v1, config = tf.compat.v1, case.config
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

        path = ORIGINAL / "tf" / "model.py"
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


def main() -> None:
    global ORIGINAL
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", required=True, choices=REFERENCES)
    parser.add_argument("--original_dir", type=pathlib.Path, help="for the references torch and tf")
    parser.add_argument("--output_dir", default=CASE_LIST.parent, type=pathlib.Path)
    parser.add_argument("--cases", nargs="*", help="by default every case of the reference")
    options = parser.parse_args()
    ORIGINAL, reference = options.original_dir, options.reference
    if reference != "hf" and ORIGINAL is None:
        parser.error(f"the reference {reference} is the original code: give --original_dir")
    prepare(reference)
    for case in listed_cases(reference):
        if not options.cases or case.name in options.cases:
            make_case(REFERENCES[reference], case, options.output_dir / case.name)
            print(f"{case.name}: done.", flush=True)
    listing = json.loads(CASE_LIST.read_text())
    versions = {package: importlib.metadata.version(package) for package in _PACKAGES[reference]}
    listing["made_with"][reference] = versions
    write_json(options.output_dir / CASE_LIST.name, listing)


if __name__ == "__main__":
    main()
