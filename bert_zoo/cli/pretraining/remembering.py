"""Trainings with hidden tokens on streams, by a model that remembers what stands before a row."""

from bert_zoo.cli.pretraining.masked import MaskedTraining, Settings
from bert_zoo.cli.pretraining.measuring import MEASURED_ROWS, MEASURED_SEED, HeldOut
from bert_zoo.data.token_shards import TokenShards
from bert_zoo.models.task_model import under_settings
from bert_zoo.tasks.objectives import ObjectiveModel
from bert_zoo.tasks.stateful_objectives import StatefulObjectives
from bert_zoo.training.pretraining_batches import PretrainingBatches

# Batches of held-out text at least, where it has so many: the first has no memory.
MEASURED_BATCHES = 8


class RememberingTraining(MaskedTraining):
    """Rows that go on where those of the batch before ended, and the memory of these: XLNet's.

    The memory keeps a row's first half, and has room for three quarters of a row (384 of 512, as the
    original). Arguments: as `MaskedTraining`. The model that is saved has no memory.

    Raises:
        ValueError: also rows of several lengths, or a model that does not read rows backwards.
    """

    def __init__(self, model: ObjectiveModel, settings: Settings, shards: TokenShards, seed: int):
        if "reads_backwards" not in model.id_limits():
            raise ValueError(
                f"rows={settings.rows} go on from batch to batch, and models of the family "
                f"{model.encoder.family} cannot remember hidden tokens' rows. Choose other rows."
            )
        lengths = {length for length, _ in settings.phases}
        if len(lengths) > 1:
            raise ValueError(
                f"rows={settings.rows} go on from batch to batch, and have one length; phases are of "
                f"{sorted(lengths)}. Give one (--length)."
            )
        (length,), recipe = lengths, settings.recipe
        remembering = under_settings(model, mem_len=3 * length // 4, reuse_len=length // 2)
        super().__init__(remembering, settings, shards, seed)
        self.model = StatefulObjectives(self.inner, recipe.micro_batch_size)

    def about(self):
        return {**super().about(), "memory": self.inner.encoder.config.mem_len}

    def held_out(self, name: str, shards: TokenShards) -> HeldOut:
        """Batches of a text to measure on, as large as those of training."""
        (batches,) = self.phases
        held_out = PretrainingBatches(
            shards,
            batches.scheme,
            self.objective,
            batches.batch_size,
            seed=MEASURED_SEED,
            mlm_only=self.mlm_only,
        )
        count = max(MEASURED_BATCHES, MEASURED_ROWS // batches.batch_size)
        return HeldOut(name, held_out, min(held_out.per_epoch, count))

    def trained(self) -> ObjectiveModel:
        return under_settings(self.inner, mem_len=0, reuse_len=0)
