"""Directories of transformers that bert_zoo reads, and those of bert_zoo that transformers reads.

    python tools/references/transformers_directories.py vocabularies DIRECTORY ../shared/data
    reference-env/bin/python tools/references/transformers_directories.py write DIRECTORY
    python tools/references/transformers_directories.py load DIRECTORY
    reference-env/bin/python tools/references/transformers_directories.py open DIRECTORY

`write`, in an environment with torch and transformers 5 (see make_golden.py), makes a tiny model with random
weights of every class of every family, with a vocabulary of thousands of real pieces, and what they give for
real texts. `load` has bert_zoo read each, and write it again with `save(format="hf")`. `open`, with
transformers 4 or 5, reads these. Both print a line a family: directories, those whose ids of texts and
pairs are equal, and the largest difference of the outputs.
"""

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hugging_face_tokenizers import ROOT, run

TEXTS, MOST_CHARACTERS, BATCH = 400, 120, 6
TOLERANCE = 1e-5
ROLES = ("unknown", "padding", "cls", "sep", "mask")
ROLE_TOKENS = ("UNK", "PAD", "CLS", "SEP", "MASK")
LIMIT = 128  # positions of the models, and tokens of the rows
# Ends of names of transformers' classes -> our task, of those that a family has.
HEADS = {
    "Model": "encoder",
    "ForMaskedLM": "masked_lm",
    "ForSequenceClassification": "classification",
    "ForMultipleChoice": "multiple_choice",
    "ForTokenClassification": "token_classification",
    "ForQuestionAnswering": "question_answering",
}
PRETRAINING = HEADS | {"ForPreTraining": "pretraining"}
OF_SENTENCES = PRETRAINING | {"ForNextSentencePrediction": "next_sentence_prediction"}
# The class that ends in "ForQuestionAnswering" has beams.
OF_STREAMS = {
    **{name: task for name, task in HEADS.items() if task != "question_answering"},
    "ForQuestionAnsweringSimple": "question_answering",
}
OF_DECODERS = HEADS | {"LMHeadModel": "causal_lm"}
# Of our family, whose tiny configuration its golden encoder has: vocabulary below vocabularies/, class of
# the tokenizer, classes.
FAMILIES = {
    "bert": ("wordpiece", "BertTokenizer", OF_SENTENCES),
    "multilingual_minilm": ("sentencepiece_fairseq", "XLMRobertaTokenizer", HEADS),
    "electra": ("wordpiece", "ElectraTokenizer", HEADS),
    "ernie": ("wordpiece", "BertTokenizer", OF_SENTENCES),
    "mobilebert": ("wordpiece", "MobileBertTokenizer", OF_SENTENCES),
    "distilbert": ("wordpiece", "DistilBertTokenizer", HEADS),
    "mpnet": ("wordpiece_mpnet", "MPNetTokenizer", HEADS),
    "albert": ("sentencepiece", "AlbertTokenizer", PRETRAINING),
    "roberta": ("byte_bpe", "RobertaTokenizer", HEADS),
    "xlm_roberta": ("sentencepiece_fairseq", "XLMRobertaTokenizer", HEADS),
    "camembert": ("sentencepiece_fairseq", "CamembertTokenizer", HEADS),
    "deberta": ("byte_bpe_bracketed", "DebertaTokenizer", HEADS),
    "deberta_v2": ("sentencepiece_plain", "DebertaV2Tokenizer", HEADS),
    "jina_v3": ("sentencepiece_fairseq", "XLMRobertaTokenizer", HEADS),
    "esm2": ("proteins", "EsmTokenizer", HEADS),
    "nomic_bert": ("wordpiece", "BertTokenizer", HEADS),
    "gte": ("wordpiece", "BertTokenizer", HEADS),
    "eurobert": ("byte_bpe_composed", "PreTrainedTokenizerFast", HEADS),
    "ultrabert": ("byte_bpe_composed", "PreTrainedTokenizerFast", HEADS),
    "roformer": ("wordpiece", "BertTokenizer", HEADS),
    "modernbert": ("byte_bpe_composed", "PreTrainedTokenizerFast", HEADS),
    "xlnet": ("sentencepiece_cased", "XLNetTokenizer", OF_STREAMS | {"LMHeadModel": "masked_lm"}),
    "xlm": ("word_bpe", "XLMTokenizer", OF_STREAMS | {"WithLMHeadModel": "masked_lm"}),
    "gpt": ("char_bpe", "OpenAIGPTTokenizer", OF_DECODERS),
    "gpt2": ("byte_bpe_gpt2", "GPT2Tokenizer", OF_DECODERS),
}
# What tiny configurations say and these models do not: their vocabularies are others, and longer texts.
OTHERS = {
    "vocab_size": None,
    "max_position_embeddings": LIMIT,
    "n_positions": LIMIT,
    "n_langs": 1,
}
AFTER_PADDING = ("roberta", "xlm_roberta", "camembert", "mpnet")
# Our names of a model's outputs -> transformers'.
OUTPUTS = {
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "mlm_logits": "prediction_logits",
    "nsp_logits": "seq_relationship_logits",
    "sop_logits": "sop_logits",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
    "logits": "logits",
}
INPUTS = {
    "token_ids": "input_ids",
    "segment_ids": "token_type_ids",
    "padding_mask": "attention_mask",
}


# --- Texts and vocabularies ------------------------------------------------------------------------


def real_texts(data: str | Path) -> list[str]:
    """Lines in hundreds of languages, in random order."""
    import gzip

    rows = json.loads(gzip.decompress(Path(data, "text", "tokenizer_texts.json.gz").read_bytes()))
    texts = [t if isinstance(t, str) else " ".join(t) for part in rows.values() for t in part]
    random.Random(0).shuffle(texts)
    return [text for text in texts if text.strip()]


def vocabularies(directory: str, data: str) -> None:
    """Trains the vocabularies of all families, and keeps the texts."""
    import io

    import sentencepiece
    import tokenizers

    from bert_zoo.pretraining.vocabularies import train_vocabulary
    from bert_zoo.text import ByteBpeTokenizer

    texts = real_texts(data)
    write_file(Path(directory, "texts.json"), [text[:MOST_CHARACTERS] for text in texts[:TEXTS]])
    below = Path(directory, "vocabularies")
    lowercase = ("wordpiece", "word_bpe", "sentencepiece")
    cased = ("byte_bpe", "byte_bpe_bracketed", "sentencepiece_cased", "sentencepiece_plain")
    for kind in (*lowercase, *cased):
        train_vocabulary(texts, kind, below / kind, vocab_size=5000, lowercase=kind in lowercase)
    words = (below / "wordpiece" / "vocab.txt").read_text().split("\n")[5:]
    words = ["<s>", "<pad>", "</s>", "[UNK]", *words[:-1], "<mask>", ""]
    write_file(below / "wordpiece_mpnet" / "vocab.txt", "\n".join(words).encode())

    pieces = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=pieces, vocab_size=5000, minloglevel=2
    )
    write_file(below / "sentencepiece_fairseq" / "sentencepiece.bpe.model", pieces.getvalue())

    proteins = ROOT / "tests" / "golden" / "esm2" / "encoder" / "vocab.txt"
    write_file(below / "proteins" / "vocab.txt", proteins.read_bytes())

    merges = (below / "byte_bpe" / "merges.txt").read_bytes()
    tokens = json.loads((below / "byte_bpe" / "vocab.json").read_text())
    tokens = [token for token in tokens if not (token[0] == "<" and token[-1] == ">" and token[1:])]
    gpt2 = below / "byte_bpe_gpt2"
    write_file(gpt2 / "vocab.json", {t: i for i, t in enumerate([*tokens, "<|endoftext|>"])})
    write_file(gpt2 / "merges.txt", merges)
    pairs = [tuple(line.split(" ")) for line in merges.decode().split("\n")[1:-1]]
    named = {f"{n}_token": f"[{t}]" for n, t in zip(ROLES, ROLE_TOKENS, strict=True)}
    composed = ByteBpeTokenizer(
        [*named.values(), *tokens, "   "],
        pairs,
        normalization="NFC",
        added_tokens=["   "],
        **named,
    )
    composed.save(below / "byte_bpe_composed")

    word = {"end_of_word_suffix": "</w>"}
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", **word))
    trained.normalizer = tokenizers.normalizers.BertNormalizer()
    trained.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=5000, special_tokens=["<unk>"], show_progress=False, **word
    )
    trained.train_from_iterator(texts, trainer)
    model = json.loads(trained.to_str())["model"]
    lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"]), ""]
    write_file(below / "char_bpe" / "vocab.json", model["vocab"])
    write_file(below / "char_bpe" / "merges.txt", "\n".join(lines).encode())


def write_file(path: Path, content) -> None:
    """Bytes as they are, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (
        content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
    )
    path.write_bytes(data)


def texts_and_pairs(directory: str) -> tuple[list[str], list[tuple[str, str]]]:
    texts = json.loads(Path(directory, "texts.json").read_text())
    return texts, [*zip(texts[::2], texts[1::2], strict=True)]


def short_pairs(directory: str) -> list[tuple[str, str]]:
    """A batch that no model cuts."""
    return [(a[:20], b[:16]) for a, b in texts_and_pairs(directory)[1][:BATCH]]


# --- transformers' side ----------------------------------------------------------------------------


def set_up() -> None:
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.manual_seed(0)


def rows_of(tokenizer, directory: str) -> dict[str, list[list[int]]]:
    """The ids of every text, and of every pair, alone."""
    texts, pairs = texts_and_pairs(directory)
    firsts, seconds = map(list, zip(*pairs, strict=True))
    return {
        "texts": tokenizer(texts)["input_ids"],
        "pairs": tokenizer(firsts, seconds)["input_ids"],
    }


def inputs_of(tokenizer, directory: str, task: str) -> dict[str, np.ndarray]:
    """A batch of pairs by our names, as a model of the task takes it."""
    shape = (BATCH // 2, 2, -1) if task == "multiple_choice" else (BATCH, -1)
    batch = tokenizer(
        *map(list, zip(*short_pairs(directory), strict=True)), padding=True, return_tensors="np"
    )
    return {
        ours: batch[theirs].reshape(shape) for ours, theirs in INPUTS.items() if theirs in batch
    }


def answers_of(model, inputs: dict[str, np.ndarray], task: str) -> dict[str, np.ndarray]:
    """The inputs, and what a model gives for them by our names."""
    import torch

    batch = {INPUTS[name]: torch.from_numpy(value).long() for name, value in inputs.items()}
    with torch.no_grad():
        result = model(**batch)
    outputs = {ours: result.get(theirs) for ours, theirs in OUTPUTS.items()}
    if task == "causal_lm":
        outputs = {"log_probs": torch.log_softmax(result.logits, -1)}
    return inputs | {name: v.numpy() for name, v in outputs.items() if v is not None}


def inputs_in(file: Path) -> dict[str, np.ndarray]:
    """Those of the other side, so that outputs are of equal ids."""
    with np.load(file) as arrays:
        return {name: arrays[name] for name in INPUTS if name in arrays}


def config_of(family: str, tokenizer):
    """The beginning of the names of a family's classes, and a tiny configuration for a vocabulary."""
    import transformers

    directory = ROOT / "tests" / "golden" / family / "encoder"
    tiny = transformers.AutoConfig.from_pretrained(directory)
    said = tiny.to_dict()
    others = {name: value for name, value in OTHERS.items() if name in said}
    others["vocab_size"] = len(tokenizer)
    if family in AFTER_PADDING:
        others["max_position_embeddings"] += 2
    for role in ("pad", "eos", "cls", "sep", "bos"):
        if f"{role}_token_id" in said or role in ("pad", "eos"):
            others[f"{role}_token_id"] = getattr(tokenizer, f"{role}_token_id")
    tiny.update(others)
    return type(tiny).__name__.removesuffix("Config"), tiny


def write(directory: str, *names: str) -> None:
    """Writes models of all families and classes, and what transformers gives for texts."""
    import torch
    import transformers

    set_up()
    for family in chosen(names):
        vocabulary, tokenizer_class, classes = FAMILIES[family]
        source = Path(directory, "vocabularies", vocabulary)
        tokenizer = getattr(transformers, tokenizer_class).from_pretrained(source)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        prefix, config = config_of(family, tokenizer)
        below, tasks = Path(directory, "theirs", family), {}
        write_file(below / "rows.json", rows_of(tokenizer, directory))
        for ending, task in classes.items():
            model_class = getattr(transformers, prefix + ending, None)
            if model_class is None:
                continue
            # Three classes; other heads have the number of their own.
            config.num_labels = 3 if task in ("classification", "token_classification") else 2
            config.architectures = [model_class.__name__]
            model = model_class(config).eval()
            for parameter in filter(lambda p: p.requires_grad, model.parameters()):
                parameter.data += 0.1 * parameter.data.new_empty(parameter.shape).normal_()
            for layer in model.modules():
                if isinstance(layer, torch.nn.Embedding) and layer.padding_idx is not None:
                    layer.weight.data[layer.padding_idx] = 0  # as it always is
            model.tie_weights()
            model.save_pretrained(below / model_class.__name__)
            tokenizer.save_pretrained(below / model_class.__name__)
            arrays = answers_of(model, inputs_of(tokenizer, directory, task), task)
            np.savez(below / f"{model_class.__name__}.npz", **arrays)
            tasks[model_class.__name__] = task
        write_file(below / "tasks.json", tasks)


def open_(directory: str, *names: str) -> None:
    """Reads what bert_zoo wrote, and compares with what it gave."""
    import transformers

    set_up()
    print(f"bert_zoo's directories in transformers {transformers.__version__}")
    for family in chosen(names):
        below, results = Path(directory, "ours", family), []
        for name, task in tasks_of(directory, family).items():
            with telling(results, name):
                tokenizer = transformers.AutoTokenizer.from_pretrained(below / name)
                model, info = getattr(transformers, name).from_pretrained(
                    below / name, output_loading_info=True
                )
                if problems := {kind: found for kind, found in info.items() if found}:
                    raise ValueError(problems)
                rows = rows_of(tokenizer, directory)
                arrays = answers_of(model.eval(), inputs_in(below / f"{name}.npz"), task)
                results.append(compared(below, name, rows, arrays))
        print_line(family, results)


# --- Our side --------------------------------------------------------------------------------------


def load(directory: str, *names: str) -> None:
    """Reads what transformers wrote, compares, and writes it again."""
    import bert_zoo

    print("transformers' directories in bert_zoo")
    for family in chosen(names):
        theirs, ours = (Path(directory, side, family) for side in ("theirs", "ours"))
        results = []
        for name, task in tasks_of(directory, family).items():
            with telling(results, name):
                model = bert_zoo.load(theirs / name, task, max_length=LIMIT)
                rows = our_rows(model, directory)
                arrays = our_answers(model, inputs_in(theirs / f"{name}.npz"))
                results.append(compared(theirs, name, rows, arrays))
                bert_zoo.save(model, ours / name, format="hf")
                write_file(ours / "rows.json", rows)
                np.savez(ours / f"{name}.npz", **arrays)
        print_line(family, results)


def our_rows(model, directory: str) -> dict[str, list[list[int]]]:
    texts, pairs = texts_and_pairs(directory)
    preprocessor = model.preprocessor.with_options(sequence_length=512)
    given = {"texts": texts, "pairs": tuple(map(list, zip(*pairs, strict=True)))}
    return {
        name: [
            row[mask == 1].tolist()
            for row, mask in zip(*map(np.asarray, (b["token_ids"], b["padding_mask"])), strict=True)
        ]
        for name, b in ((name, preprocessor(value)) for name, value in given.items())
    }


def our_answers(model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As `answers_of`."""
    read = model.preprocessor((["a"], ["b"]))
    inputs = {name: value.astype(np.int32) for name, value in inputs.items() if name in read}
    outputs = model(inputs)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    return inputs | {name: np.asarray(value) for name, value in outputs.items()}


# --- What both sides say ---------------------------------------------------------------------------


@contextlib.contextmanager
def telling(results: list, name: str) -> Iterator[None]:
    """Notes an error as the result of a directory, and goes on."""
    try:
        yield
    except Exception as error:
        results.append((name, None, f"{type(error).__name__}: {str(error)[:300]}"))


def chosen(names: tuple[str, ...]) -> Iterator[str]:
    return (family for family in FAMILIES if not names or family in names)


def tasks_of(directory: str, family: str) -> dict[str, str]:
    """Names of the classes that `write` has written -> tasks."""
    return json.loads(Path(directory, "theirs", family, "tasks.json").read_text())


def compared(below: Path, name: str, rows: dict, arrays: dict) -> tuple[str, dict, str]:
    """How many rows differ from those of the other side, and by how much the outputs."""
    expected = json.loads((below / "rows.json").read_text())
    found = {
        kind: sum(a != b for a, b in zip(rows[kind], expected[kind], strict=True)) for kind in rows
    }
    with np.load(below / f"{name}.npz") as file:
        theirs = dict(file)
    found["outputs"] = 0.0
    problem = ""
    for output in (*OUTPUTS, "log_probs"):
        if output in theirs and output in arrays:
            values = [of_tokens(side[output], side["padding_mask"]) for side in (arrays, theirs)]
            difference = float(np.abs(values[0] - values[1]).max())
            found["outputs"] = max(found["outputs"], difference)
        elif output in theirs:
            problem = f"no {output} but {sorted(arrays)}"
    return name, found, problem


def of_tokens(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Without what stands at padding, which means nothing."""
    return values[mask == 1] if values.shape[: mask.ndim] == mask.shape else values


def print_line(family: str, results: list) -> None:
    fine = [found for _, found, _ in results if found]
    worst = {
        kind: max((found[kind] for found in fine), default=0)
        for kind in ("texts", "pairs", "outputs")
    }
    equal = sum(not (f["texts"] or f["pairs"] or f["outputs"] > TOLERANCE) for f in fine)
    print(
        f"{family}: {len(results)} directories, {equal} equal; at most {worst['texts']} texts and "
        f"{worst['pairs']} pairs with other ids, outputs within {worst['outputs']:.1e}",
        flush=True,
    )
    for name, _, problem in results:
        if problem:
            print(f"    {name}: {problem}", flush=True)


if __name__ == "__main__":
    run({"vocabularies": vocabularies, "write": write, "load": load, "open": open_})
