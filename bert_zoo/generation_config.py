"""How a model generates text by default: the settings of transformers' generation_config.json, checked."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from bert_zoo.config import ConfigError
from bert_zoo.error_text import listing, nearest, shown
from bert_zoo.fields import check_fields, is_integer, limits_of, setting
from bert_zoo.json_files import JsonObject

log = logging.getLogger("bert_zoo")

# Limits for the numbers of a file, which would otherwise exhaust memory or take hours.
MOST_TOKENS = 1_000_000
MOST_BEAMS = 1_000
LONGEST_NGRAM = 100
LARGEST_PENALTY = 1e4
LARGEST_EXPONENT = 100
LARGEST_ID = 2**31 - 1

# Keys that change no token: bookkeeping, caches, outputs, and ids that `generate` reads elsewhere.
WITHOUT_EFFECT = frozenset(
    """
    _commit_hash _from_model_config bos_token_id cache_config cache_implementation compile_config
    disable_compile low_memory max_cache_len output_attentions output_hidden_states output_logits
    output_scores pad_token_id return_dict_in_generate transformers_version use_cache
    """.split()
)
# Settings that are not supported, with the values other than null that change nothing.
UNSUPPORTED = {
    "diversity_penalty": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "guidance_scale": (1,),
    "num_beam_groups": (1,),
    "remove_invalid_values": (False,),
    "renormalize_logits": (False,),
    "token_healing": (False,),
    "typical_p": (1,),
}


token_ids = partial(setting, None, least=0, most=LARGEST_ID)


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How a model generates unless `generate` is told otherwise, with transformers' names and meanings.

    None leaves a setting to `generate`.

    Attributes:
        max_length, min_length: limits of all tokens, including the prompt or the token that starts a target;
            `max_new_tokens` and `min_new_tokens` go before them.
        max_new_tokens, min_new_tokens: limits of the new tokens. Before a minimum no text ends.
        do_sample: whether tokens are drawn at random.
        temperature: number that logits are divided by before drawing; 0 draws nothing.
        top_k, top_p: draw among the `top_k` likeliest tokens, and among the likeliest that together have
            the probability `top_p`. `top_k` is 50 by default, 0 for no limit.
        num_beams: number of texts that a beam search keeps; 1 for none.
        length_penalty: exponent of the number of tokens that a beam's score is divided by; 1 by default.
        early_stopping: True ends a beam search when `num_beams` texts are finished; False when no better
            one is likely; "never" when no better one is possible.
        num_return_sequences: number of texts for each prompt.
        repetition_penalty: above 1 makes tokens that have occurred less likely (Keskar et al. 2019).
        no_repeat_ngram_size: number of tokens that may not occur twice in this order; 0 for no limit.
        bad_words_ids: sequences of tokens that are never written.
        forced_bos_token_id: token after a first token, such as the one that starts a target.
        forced_eos_token_id: tokens one of which is the last one of a text that reaches its maximum length.
        suppress_tokens, begin_suppress_tokens: tokens that are never chosen, or not as the first new one.
        eos_token_id: tokens that end a text.
        decoder_start_token_id: token that starts a target; by default padding.
        prefix: text before each source or prompt.
        task_specific_params: further settings by name, which `generate(settings=name)` chooses.

    Raises:
        ConfigError: a value is invalid.
    """

    max_length: int | None = setting(None, least=1, most=MOST_TOKENS)
    max_new_tokens: int | None = setting(None, least=1, most=MOST_TOKENS)
    min_length: int | None = setting(None, least=0, most=MOST_TOKENS)
    min_new_tokens: int | None = setting(None, least=0, most=MOST_TOKENS)
    do_sample: bool | None = None
    temperature: float | None = setting(None, least=0, most=LARGEST_PENALTY)
    top_k: int | None = setting(None, least=0, most=LARGEST_ID)
    top_p: float | None = setting(None, above=0, most=1)
    num_beams: int | None = setting(None, least=1, most=MOST_BEAMS)
    length_penalty: float | None = setting(None, least=-LARGEST_EXPONENT, most=LARGEST_EXPONENT)
    early_stopping: bool | str | None = setting(None, choices=("never",))
    num_return_sequences: int | None = setting(None, least=1, most=MOST_BEAMS)
    repetition_penalty: float | None = setting(None, above=0, most=LARGEST_PENALTY)
    no_repeat_ngram_size: int | None = setting(None, least=0, most=LONGEST_NGRAM)
    bad_words_ids: Sequence[Sequence[int]] | None = token_ids()
    forced_bos_token_id: int | None = token_ids()
    forced_eos_token_id: int | Sequence[int] | None = token_ids()
    suppress_tokens: Sequence[int] | None = token_ids()
    begin_suppress_tokens: Sequence[int] | None = token_ids()
    eos_token_id: int | Sequence[int] | None = token_ids()
    decoder_start_token_id: int | None = token_ids()
    prefix: str | None = None
    task_specific_params: Mapping[str, Self] = field(default_factory=dict)

    def __post_init__(self):
        check_fields(self, ConfigError)
        if not all(self.bad_words_ids or ()):
            raise ConfigError(
                f"bad_words_ids is {shown(self.bad_words_ids)}; it must be a list of lists of token ids, at least one each."
            )
        for name in END_IDS:
            if is_integer(value := getattr(self, name)):
                object.__setattr__(self, name, (value,))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"{type(self).__name__}({said})"

    @classmethod
    def read(cls, files: Sequence[JsonObject], vocab_size: int) -> Self:
        """Reads what files say; the first one decides. Logs the names of settings without support; ConfigError names
        file and setting."""
        config = cls()
        for values in reversed(files):
            config = config.updated(cls._of_file(values, vocab_size))
        return config

    @classmethod
    def _of_file(cls, values: JsonObject, vocab_size: int) -> Self:
        settings = {name: values[name] for name in SETTINGS if values.get(name) is not None}
        known = {*SETTINGS, *WITHOUT_EFFECT, TASKS}
        unknown = [
            f"{name} (= {shown(value, 60)})"
            for name, value in values.items()
            if name not in known and value is not None and value not in UNSUPPORTED.get(name, ())
        ]
        if unknown:
            log.warning(
                "%s has settings that generate() does not support: %s. They are left out.",
                values.where,
                listing(unknown),
            )
        of_tasks = values.section(TASKS)
        try:
            config = cls(**settings)
            config.check_ids(vocab_size)
        except ConfigError as error:
            raise ConfigError(f"{values.where}: {error}") from error
        ends = config.eos_token_id or ()
        if unseen := [index for index in ends if index >= vocab_size]:
            log.warning(
                "%s: eos_token_id has %s, but the vocabulary has %s tokens. It ends no text.",
                values.where,
                listing(unseen),
                f"{vocab_size:,}",
            )
            kept = tuple(index for index in ends if index < vocab_size)
            config = config.replace(eos_token_id=kept or None)
        tasks = {name: cls._of_file(of_tasks.section(name), vocab_size) for name in of_tasks}
        return config.replace(task_specific_params=tasks)

    def check_ids(self, vocab_size: int) -> None:
        """ConfigError for ids of tokens that a vocabulary does not have."""
        for name in IDS:
            found = [i for i in _flat(getattr(self, name)) if i >= vocab_size]
            if found:
                raise ConfigError(
                    f"{name} has the token id {found[0]}; ids must be below {vocab_size:,}, the number of tokens."
                )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        tasks = {name: cls.from_dict(v) for name, v in values.get(TASKS, {}).items()}
        return cls(**{**values, TASKS: tasks})

    def to_dict(self) -> dict[str, Any]:
        """The settings with a value, as JSON has them."""
        values = {name: _as_json(getattr(self, name)) for name in SETTINGS}
        # transformers refuses an empty list of words.
        values = {name: value for name, value in values.items() if value not in (None, [])}
        # A single id is written as a number, as in transformers' files.
        values |= {
            name: value[0] for name, value in values.items() if name in END_IDS and len(value) == 1
        }
        tasks = {name: config.to_dict() for name, config in self.task_specific_params.items()}
        return values | ({TASKS: tasks} if tasks else {})

    def replace(self, **changes: Any) -> Self:
        if unknown := sorted(set(changes) - {*SETTINGS, TASKS}):
            raise TypeError(
                f"There is no setting {unknown[0]!r} of generation.{nearest(unknown[0], SETTINGS)} The settings are "
                f"{', '.join(SETTINGS)}."
            )
        return dataclasses.replace(self, **changes)

    def updated(self, other: Self) -> Self:
        """With the settings that have a value in another configuration."""
        changes = {name: getattr(other, name) for name in (*SETTINGS, TASKS)}
        return self.replace(**{n: value for n, value in changes.items() if value not in (None, {})})

    def chosen(self, settings: str | None) -> Self:
        """With the settings of a name in `task_specific_params`; None changes nothing."""
        if settings is None:
            return self
        if settings not in self.task_specific_params:
            known = ", ".join(map(repr, self.task_specific_params))
            raise ValueError(
                f"settings is {settings!r}; "
                + (f"this model has {known}." if known else "this model has none by name.")
            )
        return self.updated(self.task_specific_params[settings])

    @property
    def needed_ids(self) -> set[int]:
        """The ids that a vocabulary cannot lack, those that are not merely barred."""
        needed = {i for name in WRITTEN_IDS for i in _flat(getattr(self, name))}
        return needed.union(*(task.needed_ids for task in self.task_specific_params.values()))

    def renumbered(self, ids: Mapping[int, int]) -> Self:
        """For a vocabulary with other ids, old id -> new id of each token that remains; words with missing tokens are
        left out."""

        def new(value):
            if isinstance(value, tuple):
                return tuple(new(item) for item in value if ids.keys() >= {*_flat(item)})
            return ids.get(value)

        changes = {name: new(getattr(self, name)) for name in {*IDS, *WRITTEN_IDS}}
        tasks = {name: task.renumbered(ids) for name, task in self.task_specific_params.items()}
        return self.replace(**changes, task_specific_params=tasks)


TASKS = "task_specific_params"
# All other settings; those that are token ids which must be in the vocabulary; those that are one or several; and those
# that name tokens to write.
SETTINGS = tuple(name for name in limits_of(GenerationConfig) if name != TASKS)
IDS = (
    *("bad_words_ids", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens"),
    *("begin_suppress_tokens", "decoder_start_token_id"),
)
END_IDS = ("forced_eos_token_id", "eos_token_id")
WRITTEN_IDS = ("forced_bos_token_id", "decoder_start_token_id", *END_IDS)


def _flat(value: Any) -> list[int]:
    if value is None:
        return []
    return [i for item in value for i in _flat(item)] if isinstance(value, tuple) else [value]


def _as_json(value: Any) -> Any:
    return [_as_json(item) for item in value] if isinstance(value, tuple) else value
