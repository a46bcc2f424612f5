"""Reports of runs: an HTML page of results and a model card.

Nothing here imports TensorFlow or Keras.
"""

from pathlib import Path

from bert_zoo.cli.report.analysis import HardExample
from bert_zoo.cli.report.pretraining import PretrainingRecord
from bert_zoo.cli.report.record import RunRecord
from bert_zoo.cli.report.render import write

__all__ = ["HardExample", "PretrainingRecord", "RunRecord", "write_report"]


def write_report(run: RunRecord | PretrainingRecord, directory: Path) -> None:
    """Writes a run's page (`report.html`) and its model's card (`model/README.md`)."""
    template = "pretrained" if isinstance(run, PretrainingRecord) else "finetuned"
    write(f"{template}.html", directory / "report.html", run=run)
    write(f"{template}.md", directory / "model" / "README.md", run=run)
