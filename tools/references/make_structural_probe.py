"""Makes tests/golden/structural_probe.npz: what the structural probe's released code computes, in float64.

Trees and vectors are seeded random ones, of values that half precision holds. The vectors are partly a function of the
trees, so that training has something to find. All training sentences are one batch, as that code draws their order.

    git clone https://github.com/john-hewitt/structural-probes  # commit ad37b024
    python tools/references/make_structural_probe.py --repository structural-probes  # numpy, scipy, torch, tqdm
"""

import argparse
import collections
import pathlib
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
from golden_files import GOLDEN, random_generator, stand_in

SIZE, RANK = 16, 6
TRAIN, DEVELOPMENT = 20, 10
TAGS = ("NN", "VB", "DT", ",", ".", "``")
EPOCHS = 400
Observation = collections.namedtuple("Observation", "sentence xpos_sentence head_indices")


def made_up(generator: np.random.Generator) -> tuple[list[list[str]], list[list[int]]]:
    """Parts of speech and heads of sentences of 1 to 12 words, two of them of punctuation alone and of 52 words."""
    tags, heads = [], []
    for number in range(TRAIN + DEVELOPMENT):
        length = {TRAIN: 3, TRAIN + 1: 52}.get(number, 1 + number % 12)
        tags.append(
            [","] * 3 if number == TRAIN else [str(t) for t in generator.choice(TAGS, length)]
        )
        # Every word is the dependent of one before it in a random order, so that there is no circle.
        order = generator.permutation(length)
        parents = [0] * length
        for i in range(1, length):
            parents[order[i]] = int(order[generator.integers(i)]) + 1
        heads.append(parents)
    return tags, heads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", required=True, type=pathlib.Path)
    repository = parser.parse_args().repository
    sys.path.insert(0, str(repository / "structural-probes"))
    for name in ("matplotlib", "seaborn"):  # pictures, which are not drawn
        stand_in(name, use=mock.Mock(), rcParams={}, set=mock.Mock())
    stand_in("matplotlib.pyplot")
    import loss
    import probe
    import regimen
    import reporter
    import task

    torch.set_default_dtype(torch.float64)
    generator = random_generator("structural_probe")
    tags, heads = made_up(generator)
    observations = [
        Observation([f"w{i}" for i in range(len(t))], t, [str(h) for h in parents])
        for t, parents in zip(tags, heads, strict=True)
    ]
    arrays: dict[str, np.ndarray] = {
        "lengths": np.array([len(t) for t in tags]),
        "tags": np.concatenate(tags),
        "heads": np.concatenate(heads),
    }
    # The path to the root, one dimension an ancestor, is a tree that the probe can find; half of it is noise.
    directions = generator.normal(size=(52, SIZE))
    vectors = []
    for parents in heads:
        paths = np.zeros((len(parents), 52))
        for word in range(len(parents)):
            ancestor = word + 1
            while ancestor:
                paths[word, ancestor - 1] = 1
                ancestor = parents[ancestor - 1]
        vectors.append(paths @ directions + generator.normal(size=(len(parents), SIZE)))
    arrays["vectors"] = np.concatenate(vectors).astype(np.float16)
    split = np.cumsum(arrays["lengths"])[:-1]
    words = [torch.tensor(v.astype(np.float64)) for v in np.split(arrays["vectors"], split)]

    kinds = {
        "distance": (
            task.ParseDistanceTask,
            probe.TwoWordPSDProbe,
            loss.L1DistanceLoss,
            reporter.WordPairReporter,
            ["spearmanr", "uuas"],
        ),
        "depth": (
            task.ParseDepthTask,
            probe.OneWordPSDProbe,
            loss.L1DepthLoss,
            reporter.WordReporter,
            ["spearmanr", "root_acc"],
        ),
    }
    for name, (kind, probe_class, loss_class, reporter_class, methods) in kinds.items():
        labels = [kind.labels(observation) for observation in observations]
        arrays[f"{name}/gold"] = np.concatenate([label.numpy().ravel() for label in labels])

        def batch(numbers: range, labels=labels) -> list[tuple]:
            """One batch as `custom_pad` of data.py gives it."""
            longest = max(len(words[n]) for n in numbers)
            padded = torch.zeros(len(numbers), longest, SIZE)
            marks = -torch.ones(len(numbers), *[longest] * labels[0].dim())
            for row, n in enumerate(numbers):
                padded[row, : len(words[n])] = words[n]
                marks[(row, *[slice(len(words[n]))] * labels[n].dim())] = labels[n]
            lengths = torch.tensor([len(words[n]) for n in numbers])
            return [(padded, marks, lengths, [(observations[n], None) for n in numbers])]

        train, development = (
            batch(range(TRAIN)),
            batch(range(TRAIN, TRAIN + DEVELOPMENT)),
        )
        with tempfile.TemporaryDirectory() as root:
            settings = {
                "device": "cpu",
                "probe": {"maximum_rank": RANK, "params_path": "probe.params"},
                "model": {"hidden_dim": SIZE},
                "probe_training": {"epochs": EPOCHS},
                "reporting": {"root": root, "reporting_methods": methods},
            }
            torch.manual_seed(0)
            projection = probe_class(settings)
            arrays[f"{name}/initial/weights"] = projection.proj.detach().numpy().copy()
            training, report = regimen.ProbeRegimen(settings), reporter_class(settings)

            def measure(stage: str, training=training, projection=projection, report=report,
                        development=development, name=name, root=root) -> None:  # fmt: skip
                predicted = training.predict(projection, lambda batch: batch, development)
                if stage == "initial":
                    arrays[f"{name}/predicted"] = np.concatenate(
                        [
                            row[tuple([slice(int(length))] * row.ndim)].ravel()
                            for row, length in zip(predicted[0], development[0][2], strict=True)
                        ]
                    )
                report(predicted, development, "dev")
                for file in pathlib.Path(root).glob("dev.*"):
                    if file.suffix != ".tikz":
                        fields = file.read_text().split()
                        key = f"{name}/{stage}/{file.suffix[1:]}"
                        arrays[key] = np.array([float(field) for field in fields])
                        file.unlink()

            measure("initial")
            # The loss is kept where it can be counted: once an epoch for training, once for development.
            criterion, losses = loss_class(settings), []

            def noted(*inputs, criterion=criterion, losses=losses):
                value, count = criterion(*inputs)
                losses.append(float(value))
                return value, count

            training.train_until_convergence(
                projection, lambda batch: batch, noted, train, development
            )
            projection.load_state_dict(torch.load(training.params_path))
            arrays[f"{name}/losses"] = np.array(losses).reshape(-1, 2)
            arrays[f"{name}/trained/weights"] = projection.proj.detach().numpy()
            measure("trained")
    np.savez_compressed(GOLDEN / "structural_probe.npz", **arrays)


if __name__ == "__main__":
    main()
