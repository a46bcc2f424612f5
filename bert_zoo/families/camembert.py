"""CamemBERT (Martin et al. 2020, arXiv:1911.03894): RoBERTa in French."""

from dataclasses import replace

from bert_zoo.families import roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import BASE, LARGE
from bert_zoo.family import HF, Checkpoint, TextSpec
from bert_zoo.text.files import special_tokens
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import ROBERTA
from bert_zoo.text.vocabulary_files import NEXT_LINE, Scheme, read_sentencepiece

# All pieces come after fairseq's four tokens, including SentencePiece's own <unk>, <s> and </s>. Training used
# the latter two, not fairseq's.
SCHEME = Scheme(
    name="camembert",
    model_file="sentencepiece.bpe.model",
    tokenizer_class="CamembertTokenizer",
    replaced_pieces=("<unk>",),
    first_tokens=("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
    last_tokens=("<mask>",),
    special_tokens=special_tokens("<unk>", "<pad>", "<s>", "</s>", "<mask>"),
    spaces=NEXT_LINE,
    begins_word=r"▁.*|<.*",  # fairseq sentencepiece_bpe.py, is_beginning_of_word
)

FAMILY = replace(
    roberta.FAMILY,
    name="camembert",
    defaults=roberta.FAMILY.defaults | {"vocab_size": 32005},
    pretraining="whole_words",
    pretraining_preset=None,
    formats={
        "hf": replace(
            roberta.FAMILY.formats["hf"],
            model_type="camembert",
            classes=bert.hf_classes("Camembert"),
        )
    },
    text=TextFormat(read_sentencepiece, {"scheme": SCHEME}, ROBERTA),
    checkpoints=[
        Checkpoint(
            f"camembert_{size}",
            config | {"pooler": False},
            sources=[HF(f"almanach/camembert-{size}")],
            provides=frozenset({"encoder", "masked_lm"}),
            params=params,
            licence="MIT",
            paper="CamemBERT: a Tasty French Language Model, arXiv:1911.03894",
            text=TextSpec(lowercase=None),
            note=f"French, pretrained on {text} with whole-word masking.",
        )
        for size, config, params, text in (
            ("base", BASE, 110_031_360, "OSCAR"),
            ("large", LARGE, 335_611_904, "CCNet"),
        )
    ],
)
