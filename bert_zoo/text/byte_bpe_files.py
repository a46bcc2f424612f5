"""Vocabularies of byte-level BPE in files; without TensorFlow."""

from __future__ import annotations

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import VocabularyFiles


def read_byte_bpe(files: VocabularyFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """Reads vocab.json and merges.txt, or tokenizer.json where they are not both there.

    Returns:
        The tokens in the order of their ids, and the merges, for ByteBpeTokenizer.

    Raises:
        FileNotFoundError: neither is there.
        ConfigError: a damaged file, or a tokenizer.json that is not of a byte-level BPE.
    """
    if files.has("vocab.json") and files.has("merges.txt"):
        vocabulary = tokens_by_id(files.json("vocab.json"))
        return vocabulary, merges_of_lines(files.lines("merges.txt"))
    if not files.has("tokenizer.json"):
        raise FileNotFoundError(
            f"{files.directory} has neither vocab.json with merges.txt nor tokenizer.json; it holds "
            f"{files.names()}."
        )
    model = _byte_level_model(files.json("tokenizer.json"))
    # Files of before 2024 write a merge as one string.
    merges = [
        merge.split(" ") if isinstance(merge, str) else merge
        for merge in model.take("merges", list, [])
    ]
    for number, merge in enumerate(merges):
        if not isinstance(merge, list) or not all(isinstance(token, str) for token in merge):
            raise ConfigError(
                f"{model.where}: merges[{number}] is {shown(merge)}; it must be two tokens."
            )
    vocabulary = tokens_by_id(model.section("vocab"))
    return vocabulary, [tuple(merge) for merge in merges]


def merges_of_lines(lines: list[str]) -> list[tuple[str, ...]]:
    """The merges of GPT-2's vocab.bpe or Hugging Face's merges.txt."""
    return [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]


def tokens_by_id(vocabulary: JsonObject) -> list[str]:
    """The tokens in the order of their ids, which are 0 to size - 1, each once."""
    ids = vocabulary.values_of(int)
    owners = {index: token for token, index in ids.items()}
    for token, index in ids.items():
        if owners[index] != token:
            raise ConfigError(
                f"{vocabulary.where} gives {shown(token)} and {shown(owners[index])} the same id "
                f"{index}."
            )
    if absent := [index for index in range(len(ids)) if index not in owners]:
        raise ConfigError(
            f"{vocabulary.where} has {len(ids)} tokens, whose ids would be 0 to {len(ids) - 1}, but "
            f"none with id {absent[0]}. Fetch the file again."
        )
    return [owners[index] for index in range(len(ids))]


def _byte_level_model(serialized: JsonObject) -> JsonObject:
    """Returns the model in a tokenizer.json; raises for what this tokenizer does not do."""
    model = serialized.section("model")
    pre_tokenizer = serialized.section("pre_tokenizer")
    wanted = [
        ("model.type", model.get("type", "BPE"), "BPE"),
        ("model.dropout", model.get("dropout"), None),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix") or "", ""),
        ("model.end_of_word_suffix", model.get("end_of_word_suffix") or "", ""),
        ("model.ignore_merges", model.get("ignore_merges", False), False),
        ("normalizer", serialized.get("normalizer"), None),
        ("pre_tokenizer.type", pre_tokenizer.get("type"), "ByteLevel"),
        ("pre_tokenizer.use_regex", pre_tokenizer.get("use_regex", True), True),
    ]
    refuse_others(
        wanted, serialized.where, "byte-level BPE here", "a model with RoBERTa's tokenizer"
    )
    return model


def refuse_others(
    wanted: list[tuple[str, object, object]], path: object, who: str, whose: str
) -> None:
    """Raises ConfigError where a setting of a tokenizer.json is not the one that is followed.

    Args:
        wanted: name, value and the only supported value of each setting.
        path: of the file.
        who: the tokenizer, for the message.
        whose: what the directory should belong to.
    """
    for name, value, supported in wanted:
        if value != supported:
            raise ConfigError(
                f"{path} has {name}={shown(value)}; {who} has {supported!r} only, and would give other "
                f"ids. Check that the directory belongs to {whose}."
            )
