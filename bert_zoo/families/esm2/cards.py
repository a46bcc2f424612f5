"""ESM-2's cards."""

from bert_zoo.family import HF, Checkpoint, TextSpec, read_table

TABLE = read_table("""
    name            layers  width  heads  params          repo
    esm2_t6_8m      6       320    20     7_409_081       facebook/esm2_t6_8M_UR50D
    esm2_t12_35m    12      480    20     33_269_521      facebook/esm2_t12_35M_UR50D
    esm2_t30_150m   30      640    20     147_728_601     facebook/esm2_t30_150M_UR50D
    esm2_t33_650m   33      1280   20     649_400_981     facebook/esm2_t33_650M_UR50D
    esm2_t36_3b     36      2560   40     2_832_444_321   facebook/esm2_t36_3B_UR50D
    esm2_t48_15b    48      5120   40     15_102_870_401  facebook/esm2_t48_15B_UR50D
""")


def released(name: str, layers: int, width: int, heads: int, params: int, repo: str) -> Checkpoint:
    return Checkpoint(
        name,
        {
            "num_layers": layers,
            "hidden_size": width,
            "num_heads": heads,
            "intermediate_size": 4 * width,
        },
        sources=[HF(repo)],
        provides=frozenset({"encoder", "masked_lm"}),
        params=params,
        licence="MIT",
        paper=(
            "Language models of protein sequences at the scale of evolution enable accurate structure prediction, "
            "doi:10.1101/2022.07.20.500902"
        ),
        text=TextSpec(lowercase=None, max_length=1024),
        aliases=[repo.partition("/")[2].lower()],
        note="For proteins, in letters of amino acids; model.contacts(sequences) predicts which residues touch.",
    )


CHECKPOINTS = [released(**row) for row in TABLE]
