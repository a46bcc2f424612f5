"""Makes tests/golden/peft: LoRA adapters as peft writes them, for golden checkpoints, and the outputs of both together.

Each directory has `adapter_config.json`, `adapter_model.safetensors` (one has `.bin`), and `outputs.npy`, what peft
computes of the checkpoint's own inputs. Weights are random. In an environment with torch, transformers and peft:

    python tools/references/make_peft.py --output_dir tests/golden
"""

import dataclasses
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import peft
import torch
import transformers
from golden_case import torch_inputs
from golden_files import make_all


@dataclasses.dataclass(frozen=True)
class Adapted:
    """A golden checkpoint and the options of its adapter."""

    base: str
    options: Mapping[str, Any]
    model_class: type = transformers.AutoModelForSequenceClassification
    safe: bool = True  # whether its weights are a safetensors file


CASES = {
    "patterns": Adapted(
        "bert/classification",
        {
            "task_type": "SEQ_CLS",
            "r": 4,
            "target_modules": ["query", "value", "position_embeddings"],
            "rank_pattern": {"layer.0.attention.self.query": 2},
            "alpha_pattern": {r"encoder\.layer\.1\.attention\.self\.value": 3},
        },
    ),
    "rslora_bias": Adapted(
        "roberta/classification",
        {
            "task_type": "SEQ_CLS",
            "r": 4,
            "lora_alpha": 16,
            "use_rslora": True,
            "bias": "all",
            "lora_bias": False,
            "target_modules": ["query", "key", "value", "output.dense"],
        },
    ),
    "saved_bin": Adapted(
        "distilbert/classification",
        {"r": 3, "target_modules": ["q_lin", "lin1"], "modules_to_save": ["pre_classifier"]},
        safe=False,
    ),
    "shared_layers": Adapted(
        "albert/classification",
        {"task_type": "SEQ_CLS", "r": 2, "lora_bias": True, "target_modules": ["query", "ffn"]},
    ),
    "relative": Adapted(
        "deberta_v2/classification",
        {"task_type": "SEQ_CLS", "r": 2, "target_modules": ["query_proj", "value_proj"]},
    ),
    "fan_in_fan_out": Adapted(
        "gpt2/classification",
        {
            "task_type": "SEQ_CLS",
            "r": 2,
            "target_modules": ["c_attn", "c_proj"],
            "fan_in_fan_out": True,
        },
    ),
    "bare": Adapted(
        "bert/encoder",
        {"task_type": "FEATURE_EXTRACTION", "r": 2, "target_modules": ["query", "dense"]},
        model_class=transformers.AutoModel,
    ),
}


def make(name: str, case: Adapted, golden: pathlib.Path) -> None:
    directory = golden / "peft" / name
    shutil.rmtree(directory, ignore_errors=True)
    base = case.model_class.from_pretrained(golden / case.base, dtype=torch.float32)
    model = peft.get_peft_model(base, peft.LoraConfig(**case.options)).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator)
    model.peft_config["default"].base_model_name_or_path = f"../../{case.base}"
    model.save_pretrained(directory, safe_serialization=case.safe, save_embedding_layers=False)
    (directory / "README.md").unlink()
    with np.load(golden / case.base / "io.npz") as file:
        inputs = {key: file[key] for key in file if file[key].dtype == np.int32 and key != "labels"}
    with torch.no_grad():
        outputs = model(**torch_inputs(inputs))
    key = "last_hidden_state" if case.model_class is transformers.AutoModel else "logits"
    np.save(directory / "outputs.npy", outputs[key].numpy())
    print(name, "done")


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_all(__doc__, CASES, make)
