"""What users import and call is there, under the names that it was published with."""

import importlib
import inspect
import warnings

import pytest

import bert_zoo

# Names that only ever grow: what is renamed stays here, and warns of its new name.
MODULES = {
    "bert_zoo": "describe export list_models load push_to_hub save similarity __version__ "
    "charts cli data layers metrics models pretraining probing runtime serving text training",
    "bert_zoo.charts": "attention_viewer dependency_tree heat_map layer_curves line_chart scatter",
    "bert_zoo.distillation": """
        TaughtLoss VectorLoss attention_score_loss augment cosine_loss distill distill_on_text
        hidden_state_loss prune_vocabulary relation_loss relations soft_token_loss student_of targets_of
        teacher_answers""",
    "bert_zoo.embeddings": """
        Hits Paraphrase evaluate_retrieval evaluate_similarity int8_ranges mine_negatives paraphrases search
        to_binary to_int8""",
    "bert_zoo.layers": """
        Dropout Embeddings FeedForward Pooler PostNormBlock Preprocessor SavedModelLayer ScalarMix SelfAttention
        Stack""",
    "bert_zoo.metrics": """
        AnswerSelection SpanReport Window read_null_odds read_predictions retrieval_metrics
        select_answers span_report
        squad_v1 squad_v2 write_predictions""",
    "bert_zoo.models": """
        BeamQuestionAnswerer CausalLM Classifier Encoder MaskedLM MultiLabelClassifier MultipleChoice
        Preprocessor Pretraining QuestionAnswerer Regressor Reranker SentenceEmbedder StatefulLM TASKS
        TextToText TokenClassifier""",
    "bert_zoo.tasks.objectives": """
        Draws DynamicMaskedTokens MaskedTokens NGrams OBJECTIVES PrefixLanguageModel ReplacedTokens
        Replacement SentinelIds SpanCorruption Spans TokenIds WholeTexts WholeWords objective_for show""",
    "bert_zoo.probing": """
        AttentionMaps BestHead ComparedTree DescriptionLengths Geometry HeadDistances HeadPatterns
        HeadRelations LayerCurve LayerMixes LayerProbes LayerSimilarity LayerVectors OccurrenceMap
        Preferences PruningCurve Recall StructuralProbe WordNeighbours attachment_score attention_maps
        choose_words cka compare_trees compute_vectors description_lengths head_distances
        head_importance head_patterns head_relations judge_pairs map_occurrences measure_geometry
        minimum_spanning_tree mix_layers nearest_words neighbours open_vectors probe_layers prune_heads
        pruning_curve randomly_initialised recall_facts structural_probe table_by_layer tree_depths
        tree_distances""",
    "bert_zoo.runtime": "RuntimeModel load",
    "bert_zoo.serving": "HUB_NAMES",
    "bert_zoo.text": """
        ByteBpeTokenizer LanguageModelPreprocessor Packer Preprocessor SentencePieceTokenizer
        WordLevelTokenizer WordPieceTokenizer preprocessor_from_dir tokenizer_from_dir""",
    "bert_zoo.training": """
        Adafactor BertAdamW BertLamb InverseSquareRootDecay Recipe SpanF1 TimeBudget TokenAccuracy TokenCrossentropy TrainingCheckpoint WarmupCosineDecay
        WarmupLinearDecay WarmupThenConstant WarmupThenLinearDecay add_lora bert_adamw
        compile_for_task default_preset freeze language_model_adam optimizer_for preset presets_for
        reinitialize rematerialize restore set_head_range start_from_frequencies start_from_mean strategy
        use_cores""",
    # As README and docs/ import them.
    "bert_zoo.cli.benchmarks": "make_task",
    "bert_zoo.cli.finetuning": "finetune",
    "bert_zoo.data.choices": "load_race load_swag",
    "bert_zoo.data.entities": "read_entities",
    "bert_zoo.data.glue": "load_glue write_submission",
    "bert_zoo.pretraining.corpus": "Corpus",
    "bert_zoo.pretraining.models": "evaluate",
    "bert_zoo.pretraining.run": "pretrain",
    "bert_zoo.pretraining.streams": "encode_file segments",
    "bert_zoo.pretraining.vocabularies": "build_vocabulary train_vocabulary",
    "bert_zoo.data.messages": "load",
    "bert_zoo.data.mrqa": "load_mrqa read_mrqa",
    "bert_zoo.data.nli": "load_snli load_xnli",
    "bert_zoo.data.word_vectors": "read_word_vectors",
    "bert_zoo.data.questions": "question_batches",
    "bert_zoo.data.retrieval": "read_beir",
    "bert_zoo.data.squad": "load_squad read_squad",
    "bert_zoo.data.superglue": "load_superglue metrics write_submission",
    "bert_zoo.data.tables": "read_table",
    "bert_zoo.data.tagging": "load_conll read_tagging",
    "bert_zoo.training.presets": "LANGUAGE_MODEL_PRESETS PRESETS LanguageModelPreset Preset Reading",
}
# Parameters in their order: those before "|" are taken by position too.
PARAMETERS = {
    "describe": "name |",
    "export": "model directory | format quantize pairs text",
    "list_models": "pattern provides | aliases",
    "load": """
        name task | weights num_classes num_labels labels problem_type thresholds init dtype
        max_length padding long_texts stride dropout attention_dropout activation output_hidden_states
        output_attentions""",
    "push_to_hub": "model repository | commit_message format private token",
    "save": "model directory format |",
    "similarity": "a b model |",
}
EVERY_MODEL = "compile evaluate fit predict preprocessor from_config get_config"
METHODS = {
    "BeamQuestionAnswerer": "answer",
    "CausalLM": "generate score initial_memory",
    "Classifier": "classify zero_shot",
    "Encoder": "embed freeze",
    "MaskedLM": "fill_mask score",
    "MultiLabelClassifier": "classify zero_shot",
    "MultipleChoice": "",
    "Pretraining": "fill_mask score",
    "QuestionAnswerer": "answer",
    "Regressor": "",
    "Reranker": "rank",
    "SentenceEmbedder": "embed",
    "TextToText": "generate score",
    "TokenClassifier": "tag",
}


@pytest.mark.parametrize("name", MODULES)
def test_names_can_be_imported(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module(name)
        missing = [each for each in MODULES[name].split() if not hasattr(module, each)]
    assert not missing


@pytest.mark.parametrize("verb", PARAMETERS)
def test_verbs_take_the_same_arguments(verb):
    parameters = inspect.signature(getattr(bert_zoo, verb)).parameters
    by_position, by_name = (part.split() for part in PARAMETERS[verb].split("|"))
    assert [*parameters][: len(by_position)] == by_position
    assert {*by_position, *by_name} <= set(parameters)


@pytest.mark.parametrize("name", METHODS)
def test_models_have_their_methods(name):
    methods = f"{METHODS[name]} {EVERY_MODEL}".split()
    model = getattr(bert_zoo.models, name)
    assert not [method for method in methods if not hasattr(model, method)]
