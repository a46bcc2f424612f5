"""What is known of a pretraining when it ends, as its page and its card show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bert_zoo.cli.report.hub import front_matter
from bert_zoo.cli.report.wording import duration
from bert_zoo.registry import Card

if TYPE_CHECKING:
    from bert_zoo.models.task_model import Use

# What is shown of a run, where its kind of training has it; and of the fields of its recipe.
TRAINING = (
    *("teacher", "student", "objective", "layer_map", "teacher_layer", "relation_heads"),
    *("rows", "phases", "memory", "cutoffs", "dtype", "seed"),
)
SETTINGS = (
    *("total_steps", "batch_size", "gradient_accumulation_steps", "optimizer", "learning_rate"),
    *("schedule", "warmup_proportion", "warmup_steps", "floor", "weight_decay", "decay_all"),
    *("betas", "epsilon", "bias_correction", "clip_norm", "steps_per_execution", "dtype"),
)
# Names of the losses of all that a row holds.
MAIN_LOSSES = (" out loss", " text loss")


@dataclass(frozen=True)
class PretrainingRecord:
    """A pretraining: what it changed, on held-out text and behind masks.

    Attributes:
        name: what was trained.
        use: what the model is for.
        base: the card of the checkpoint that it went on from, or of its teacher; an empty one where nothing
            is known of that, None for a model that began from nothing.
        config, results: what `config.json` and `metrics.json` of the run hold.
        curve: the picture of the losses, beside the model's card; None where there is none.
    """

    name: str
    use: "Use"
    base: Card | None
    config: Mapping[str, Any]
    results: Mapping[str, Any]
    curve: str | None = None

    @property
    def teacher(self) -> str | None:
        """What it was distilled from; None for a pretraining."""
        return self.config.get("teacher")

    @property
    def how(self) -> str:
        """How it was trained, after its name."""
        return f"distilled from {self.teacher}" if self.teacher else "pretrained"

    @property
    def main_losses(self) -> dict[str, float]:
        after = self.results["after"]
        return {name: value for name, value in after.items() if name.endswith(MAIN_LOSSES)}

    @property
    def measured(self) -> list[str]:
        """What was measured on text that was not trained on."""
        return [name for name in self.results["measured"][-1] if name.endswith(" loss")]

    def by_step(self, name: str) -> dict[int, float]:
        """Step -> loss, with that before the first."""
        rows = self.results["measured"]
        return {0: self.results["before"][name]} | {r["step"]: r[name] for r in rows if name in r}

    @property
    def unigram(self) -> dict[str, float]:
        """What counting tokens gives, by the name of the loss that it stands beside."""
        several = "held out mlm_logits_loss"
        name = several if several in self.results["before"] else "held out loss"
        loss = self.results["unigram loss"]
        return {} if loss is None else {name: loss}

    @property
    def training(self) -> dict[str, Any]:
        return {name: self.config[name] for name in TRAINING if name in self.config}

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe's settings that hold for the run: of a budget of time, the budget for the steps."""
        told, seconds = self.config["recipe"], self.config["seconds"]
        recipe = {name: told[name] for name in SETTINGS if name in told}
        if seconds:
            recipe = {"budget of time": duration(seconds)} | recipe
            recipe.pop("total_steps", None)
        return recipe

    def front_matter(self) -> str:
        """The head of its card."""
        results = [(n.removesuffix(" loss"), "loss", v) for n, v in self.main_losses.items()]
        origin = self.teacher or self.name
        base = [] if self.base is None else [origin, *self.base.get("sources", ())]
        return front_matter(
            f"{self.name}, {self.how}", self.use, base, results, dataset_type="text"
        )
