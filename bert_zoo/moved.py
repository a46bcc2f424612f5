"""Modules that have moved: importing one under its former name gives it, with a DeprecationWarning."""

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "bert_zoo.models.causal_lm": "bert_zoo.tasks.causal_lm",
    "bert_zoo.models.stateful": "bert_zoo.tasks.causal_lm.streams",
    "bert_zoo.models.tasks": "bert_zoo.tasks",
    "bert_zoo.models.text_layer": "bert_zoo.loading.text_layer",
    "bert_zoo.training.keeping": "bert_zoo.training.checkpoint_selection",
    "bert_zoo.training.finetuning": "bert_zoo.cli.finetuning",
    "bert_zoo.recurrent_config": "bert_zoo.families.transformer_xl.config",
    "bert_zoo.training.language_model_recipes": "bert_zoo.training.presets",
    "bert_zoo.training.language_modelling": "bert_zoo.cli.language_modelling",
    "bert_zoo.training.losses": "bert_zoo.models.losses",
    "bert_zoo.training.metrics": "bert_zoo.models.metrics",
    "bert_zoo.training.recipes": "bert_zoo.training.compiling",
    "bert_zoo.training.report": "bert_zoo.cli.report",
    "bert_zoo.training.tasks": "bert_zoo.cli.benchmarks",
}


class _Finder(MetaPathFinder, Loader):
    """Finds them after all other finders, so that no module that exists is touched."""

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        former = module.__name__
        warnings.warn(
            f"{former} is now {MOVED[former]}; please use the new name.",
            DeprecationWarning,
            stacklevel=2,
        )
        # What stands here afterwards is what the import gives.
        sys.modules[former] = importlib.import_module(MOVED[former])


def answer_to_former_names() -> None:
    """Makes the former names importable."""
    sys.meta_path.append(_Finder())
