"""The input of ERNIE that names each token's task."""

from bert_zoo.layers.backbones import Ids, TransformerBackbone


class TaskTypeBackbone(TransformerBackbone):
    """A `TransformerBackbone` with `TypedEmbeddings`, which also takes `task_type_ids`."""

    embedded_ids = (*TransformerBackbone.embedded_ids, "task_type_ids")

    @property
    def inputs(self) -> dict[str, Ids]:
        tasks = Ids(self.config.num_task_types, "the number of task types", is_apart=True)
        return {**super().inputs, "task_type_ids": tasks}
