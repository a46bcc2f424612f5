"""Fine-tunes with Hugging Face's Trainer: batches in random order, padded to their longest text.

One of three that `tools/benchmark.py --what finetuning` sets beside each other; see worker.py. Its
environment needs torch, transformers and accelerate.
"""

import torch
import transformers
import worker


def load(settings):
    torch.set_num_threads(settings["threads"])
    # In the Trainer's favour: Adam's moments fade into denormals, which are slow on CPUs.
    torch.set_flush_denormal(True)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    transformers.set_seed(settings["seed"])
    return transformers.BertForSequenceClassification.from_pretrained(
        settings["model_dir"], num_labels=settings["num_classes"], dtype=torch.float32
    )


def tokenizer_of(settings):
    return transformers.AutoTokenizer.from_pretrained(settings["model_dir"])


def encode(model, columns, settings):
    inputs = tokenizer_of(settings)(
        *columns,
        padding=True,
        truncation=True,
        max_length=settings["max_length"],
        return_tensors="pt",
    )
    with torch.no_grad():
        encoded = model.eval().bert(**inputs)
    return torch.hstack([encoded.last_hidden_state[:, 0], encoded.pooler_output]).tolist()


def tokenized(split, tokenizer, settings) -> list[dict]:
    """Rows for the Trainer, their labels with them."""
    batch = tokenizer(*split["columns"], truncation=True, max_length=settings["max_length"])
    batch["labels"] = split["labels"]
    return [{name: batch[name][i] for name in batch} for i in range(len(split["labels"]))]


def finetune(model, settings, watch):
    tokenizer = tokenizer_of(settings)
    train = tokenized(settings["train"], tokenizer, settings)
    measured = tokenized(settings["measured"], tokenizer, settings)
    watch.end_of("tokenization")
    # Whether it measures and keeps its model after each epoch, as bert_zoo does, or is asked once, at its end.
    by_epoch = settings.get("by_epoch", False)
    outputs_by_epoch = []
    arguments = transformers.TrainingArguments(
        output_dir=settings["scratch"],
        num_train_epochs=settings["epochs"],
        per_device_train_batch_size=settings["batch_size"],
        per_device_eval_batch_size=settings["batch_size"],
        learning_rate=settings["learning_rate"],
        warmup_steps=settings["warmup_steps"],
        weight_decay=settings["weight_decay"],
        max_grad_norm=settings["clip_norm"],
        adam_epsilon=settings["epsilon"],
        seed=settings["seed"],
        use_cpu=True,
        bf16=settings.get("bfloat16", False),
        logging_strategy="epoch",
        eval_strategy="epoch" if by_epoch else "no",
        save_strategy="epoch" if by_epoch else "no",
        save_only_model=True,
        save_total_limit=1,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model,
        arguments,
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        train_dataset=train,
        eval_dataset=measured if by_epoch else None,
        compute_metrics=lambda found: outputs_by_epoch.append(found.predictions) or {},
    )
    trainer.train()
    watch.end_of("training")
    outputs = outputs_by_epoch[-1] if by_epoch else trainer.predict(measured).predictions
    watch.end_of("evaluation")
    # One output is a score.
    predictions = outputs[:, 0] if settings["num_classes"] == 1 else outputs.argmax(axis=-1)
    return {
        "predictions": predictions.tolist(),
        "loss": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-1],
        "steps": trainer.state.global_step,
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
    }


if __name__ == "__main__":
    worker.serve(load, encode, finetune)
