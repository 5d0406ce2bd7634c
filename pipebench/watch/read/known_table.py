"""The table of the lines that other people's programs are slow by: how each is known, and what is written instead.

Where no source is given, the other way does less by what the line says: it is done once, or for all at a time.
"""

from __future__ import annotations

import re

from pipebench.watch.read.known_arrays import ARRAYS
from pipebench.watch.read.known_files import FILES
from pipebench.watch.read.known_row import Known

MODEL = Known(
    re.compile(""),
    "the model for whole batches",
    (
        "It runs for one sample at a time. Run it in the loop, for the whole batch and without",
        "gradients. Where its inputs are the same in each pass, keep its outputs.",
    ),
    r"sentence_transformers\.\w+\.encode$|transformers\.\w*Pipeline\.__call__$"
    r"|onnxruntime\.\w*Session\.run$",
)
BUILT = Known(
    re.compile(r"[A-Z]\w*\("),
    "the transform built once",
    (
        "It is built for each sample. Build it once, when the dataset is made; where its arguments",
        "differ, once for each of them (functools.lru_cache).",
    ),
    r"(?:torchaudio|torchvision|kornia|albumentations|audiomentations|monai)\.[A-Z]\w*\.__init__$",
    most=None,
    same=True,
)
KNOWN = (
    *FILES,
    *ARRAYS,
    Known(  # it runs Python code for each object inside
        re.compile(r"\b(?:copy\.)?deepcopy\("),
        "no deep copy of a sample",
        ("Copy only what the transforms change, such as array.copy() or dict(sample).",),
        r"copy\.",
        most=None,
    ),
    Known(
        re.compile(r"\.from_pretrained\(|\bspacy\.load\(|\btorch\.hub\.load\(|\bload_model\(|\btimm\.create_model\("),
        "the model or tokenizer built once",
        ("It is built for each sample. Build it once in each process, at its first sample.",),
        r"transformers\.|spacy\.|torch\.load|timm\.|tokenizers\.|diffusers\.|open_clip",
        most=None,
        same=True,
    ),
    BUILT,
    Known(
        re.compile(r"\bresample\w*\(|\blibrosa\.load\((?![^#]*\bsr\s*=\s*None)"),
        "sound at the rate of training",
        (
            "Where files have another rate, each load resamples them. Save them once at the rate that",
            "training takes.",
        ),
        r"(?:librosa|torchaudio|resampy|soxr)\.(?:resample|load)|scipy\.resample\w*$",
        most=None,
    ),
    Known(  # scikit-learn.org/stable/computing/computational_performance.html: bulk versus atomic mode
        re.compile(r"\.(?:transform|predict|predict_proba|inverse_transform)\("),
        "whole tables for scikit-learn",
        ("Each call checks its input anew. Transform the whole table once, when the dataset is made.",),
        r"sklearn\.",
        most=None,
        kinds=("getitem", "function"),
    ),
    Known(
        re.compile(r"\bliteral_eval\("),
        "texts parsed once",
        (
            "Python parses the text of each sample anew. Parse the column once. Of texts that are JSON,",
            "json.loads is faster, too.",
        ),
        r"ast\.",
        most=None,
    ),
    Known(
        re.compile(r"\bpd\.to_datetime\(|\bstrptime\(|\bparser\.parse\("),
        "dates parsed once",
        ("Dates are parsed for each sample. Do it once for the whole column: pd.to_datetime(column).",),
        r"pandas\.to_datetime|_strptime\.|dateutil\.",
        most=None,
    ),
    Known(  # huggingface.co/docs/transformers/fast_tokenizers; `batched=True` of datasets.map
        re.compile(r"\w\("),
        "texts tokenized once",
        (
            "Tokenize all texts once, before training, and keep the ids; or whole lists of texts in",
            "collate_fn, which fast tokenizers do faster than one by one.",
        ),
        r"transformers\.PreTrainedTokenizer\w*\.(?:__call__|encode\w*|tokenize|_call_one)$|nltk\.\w*tokenize$",
        most=None,
        kinds=("getitem", "function"),
    ),
)
