"""The rows of "Which model?" on docs/families/index.md, to which `tables.py` adds what the registry says.

A row is a task, what for, the languages, and a name for `load`. Of rows that say the same, the upper is the better first try.
"""

ROWS = """
fine-tune  | first choice            | English, code | modernbert_base
fine-tune  | highest scores          | English       | deberta_v3_large
fine-tune  | longer texts, deep      | English       | neobert
fine-tune  | high scores, smaller    | English       | deberta_v3_small
fine-tune  | fast                    | English       | distilbert_base_uncased
fine-tune  | small, long texts       | English, code | ettin_17m
fine-tune  | phones                  | English       | mobilebert_uncased
fine-tune  | no download             | English       | minilm_nano
fine-tune  | first choice            | 100           | xlm_roberta_base
fine-tune  | high scores             | 102           | mdeberta_v3_base
fine-tune  | long texts              | 1,800         | mmbert_base
fine-tune  | long texts, small       | 1,800         | mmbert_small
fine-tune  | long texts              | 15            | eurobert_210m
fine-tune  | first choice            | Chinese       | ernie_3_base
fine-tune  | small                   | Chinese       | ernie_3_nano
fine-tune  | first choice            | French        | camembert_base
fine-tune  | first choice            | German        | gbert_base
fine-tune  | first choice            | Dutch         | bertje
fine-tune  | biomedical texts        | English       | biobert
fine-tune  | legal texts             | English       | legalbert
fine-tune  | proteins                | amino acids   | esm2_t12_35m
embed      | small                   | English       | minilm_l6
embed      | long texts              | English       | gte_modernbert_base
embed      | up to 8,192 tokens      | English       | jina_embeddings_v2_base_en
embed      | long texts, cut vectors | English       | nomic_embed_text_v1_5
embed      | code that answers       | English, code | coderankembed
embed      | long texts, small       | English, code | granite_embedding_small_r2
embed      | long texts              | 70            | gte_multilingual_base
embed      | small                   | 100           | multilingual_e5_small
embed      | search by instructions  | 100           | multilingual_e5_large_instruct
embed      | long texts, five uses   | 100           | jina_embeddings_v3
embed      | translations of a text  | 109           | labse
rerank     | small                   | English       | ms_marco_minilm_l6
rerank     | long texts              | English       | gte_reranker_modernbert
rerank     | long texts              | 70            | gte_multilingual_reranker_base
classify   | classes of your own     | English       | nli_deberta_v3_base
classify   | sentiment, no download  | English       | minilm_nano.sst2
classify   | sentiment of tweets     | English       | twitter_roberta_sentiment
classify   | sentiment of finance    | English       | finbert
tag        | names of people, places | English       | bert_base_ner
answer     | questions about a text  | English       | distilbert_base_uncased.squad
write text | summaries, answers      | English       | flan_t5_base
write text | after fine-tuning       | 101           | mt5_base
write text | continuing a text       | English       | gpt2
"""


def rows() -> list[list[str]]:
    """Task, what for, languages and name of each row."""
    return [[cell.strip() for cell in line.split("|")] for line in ROWS.strip().splitlines()]
