"""The record of a pretraining, which its page and card show."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bert_zoo.cli.report.hub import front_matter
from bert_zoo.cli.report.wording import duration
from bert_zoo.registry import Card

if TYPE_CHECKING:
    from bert_zoo.models.task_model import Use

# The fields of a run's configuration and of its recipe that are shown, if the run has them.
TRAINING = (
    *("teacher", "student", "objective", "layer_map", "teacher_layer", "relation_heads"),
    *("rows", "phases", "memory", "cutoffs", "dtype", "seed"),
)
SETTINGS = (
    *("total_steps", "batch_size", "gradient_accumulation_steps", "optimizer", "learning_rate"),
    *("schedule", "warmup_proportion", "warmup_steps", "floor", "weight_decay", "decay_all"),
    *("betas", "epsilon", "bias_correction", "clip_norm", "steps_per_execution", "dtype"),
)
# Endings of the names of total losses.
MAIN_LOSSES = (" out loss", " text loss")


@dataclass(frozen=True)
class PretrainingRecord:
    """A pretraining and its results on held-out text.

    Attributes:
        name: the checkpoint or recipe that was trained.
        use: the task's description.
        base: the card of the checkpoint that was trained further, or of the teacher; empty if it is not known,
            None if the model was randomly initialised.
        config, results: the contents of the run's `config.json` and `metrics.json`.
        curve: file name of the picture of the losses, next to the model's card; None if there is none.
    """

    name: str
    use: "Use"
    base: Card | None
    config: Mapping[str, Any]
    results: Mapping[str, Any]
    curve: str | None = None

    @property
    def teacher(self) -> str | None:
        """The teacher of a distillation; None for a pretraining."""
        return self.config.get("teacher")

    @property
    def how(self) -> str:
        """The kind of training, to follow the name."""
        return f"distilled from {self.teacher}" if self.teacher else "pretrained"

    @property
    def main_losses(self) -> dict[str, float]:
        after = self.results["after"]
        return {name: value for name, value in after.items() if name.endswith(MAIN_LOSSES)}

    @property
    def measured(self) -> list[str]:
        """Names of the losses on text that was not used for training."""
        return [name for name in self.results["measured"][-1] if name.endswith(" loss")]

    def by_step(self, name: str) -> dict[int, float]:
        """Step -> loss, including step 0."""
        rows = self.results["measured"]
        return {0: self.results["before"][name]} | {r["step"]: r[name] for r in rows if name in r}

    @property
    def unigram(self) -> dict[str, float]:
        """The unigram model's loss, by the name of the loss that it compares with."""
        several = "held out mlm_logits_loss"
        name = several if several in self.results["before"] else "held out loss"
        loss = self.results["unigram loss"]
        return {} if loss is None else {name: loss}

    @property
    def training(self) -> dict[str, Any]:
        return {name: self.config[name] for name in TRAINING if name in self.config}

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe's settings. A run with a budget of time shows it in place of the number of steps."""
        told, seconds = self.config["recipe"], self.config["seconds"]
        recipe = {name: told[name] for name in SETTINGS if name in told}
        if seconds:
            recipe = {"time budget": duration(seconds)} | recipe
            recipe.pop("total_steps", None)
        return recipe

    def front_matter(self) -> str:
        """Returns the YAML head of its card."""
        results = [(n.removesuffix(" loss"), "loss", v) for n, v in self.main_losses.items()]
        origin = self.teacher or self.name
        base = [] if self.base is None else [origin, *self.base.get("sources", ())]
        return front_matter(
            f"{self.name}, {self.how}", self.use, base, results, dataset_type="text"
        )
