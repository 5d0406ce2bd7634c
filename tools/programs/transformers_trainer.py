"""Transformers: the Trainer on a mapped dataset, tokenised and padded by batch.

https://huggingface.co/docs/transformers/tasks/sequence_classification
"""

import sys
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

from datasets import load_dataset

FOLDER = Path(sys.argv[1]) / "sentences"


def tokeniser():
    words = ["[PAD]", "[UNK]", *(FOLDER / "words.txt").read_text().split()]
    found = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    found.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=found, pad_token="[PAD]", unk_token="[UNK]")


if __name__ == "__main__":
    set_seed(7)
    words = tokeniser()
    lines = load_dataset("json", data_files=str(FOLDER / "lines.jsonl"), split="train", cache_dir="cache")
    lines = lines.map(lambda one: words(one["text"], truncation=True, max_length=48), remove_columns="text")
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    trainer = Trainer(
        model=BertForSequenceClassification(BertConfig(vocab_size=len(words), **size)),
        args=TrainingArguments(
            "out", per_device_train_batch_size=8, num_train_epochs=1, dataloader_num_workers=2, use_cpu=True,
            report_to="none", save_strategy="no", logging_steps=25, disable_tqdm=True, seed=7,
        ),
        train_dataset=lines,
        data_collator=DataCollatorWithPadding(words),
        processing_class=words,
    )  # fmt: skip
    trainer.train()
