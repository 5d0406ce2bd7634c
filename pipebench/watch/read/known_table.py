"""The table of the lines that other people's programs are slow by: how each is known, and what is written instead.

Where no source is given, the other way does less by what the line says: it is done once, or for all at a time.
"""

from __future__ import annotations

import re

from pipebench.results.drilled import What
from pipebench.watch.read.known_arrays import ARRAYS
from pipebench.watch.read.known_copies import COPIES
from pipebench.watch.read.known_files import FILES
from pipebench.watch.read.known_operations import OPERATIONS
from pipebench.watch.read.known_row import Known

_RATE = r"(?:self\.)?\w*(?:decay|momentum|alpha|tau|beta|ema)\w*"
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
READ = "the file read once"
AGAIN = Known(
    re.compile(""),
    READ,
    (
        "Read it once, when the dataset or transform is made, and keep what it gave: best in arrays,",
        "which workers share.",
    ),
)
AGAIN_MADE = Known(
    re.compile(""),
    READ,
    ("Each new object of this class reads it. Make one object for all samples, and keep it.",),
)
ONE_RESULT = Known(
    re.compile(""),
    "a kept result",
    (
        "Call it once, when the dataset or transform is made, and keep what it gives; copy that where it is",
        "changed.",
    ),
)
ONE_BY_ARGUMENTS = Known(
    re.compile(""),
    ONE_RESULT.title,
    (
        "Keep what it gives for the same arguments, as functools.lru_cache does; where these never change, call it",
        "once, when the dataset or transform is made. Copy it where it is changed.",
    ),
)
ONE_OBJECT = Known(
    re.compile(""),
    "one object for all samples",
    ("Make it once, when the dataset or transform is made, and keep it, unless something changes it.",),
)
ONE_CALL = Known(
    re.compile(""),
    "a single call",
    ("Keep what it gives for as long as the sample is made, unless something changes it.",),
)
CUT_FIRST = Known(
    re.compile(""),
    "the part cut out first",
    (
        "Where a part of its input is enough, cut that out before. Or keep the result for other samples of",
        "the same item.",
    ),
)
NEEDLESS: dict[What, Known] = {
    "each": ONE_RESULT,
    "arguments": ONE_BY_ARGUMENTS,
    "object": ONE_OBJECT,
    "before": ONE_CALL,
    "cut": CUT_FIRST,
}
GROUPS = Known(
    re.compile(""),
    "places of each label collected once",
    (
        "It compares many items for each index. When the sampler is made, collect the indices of each",
        "label once: places = {y: np.flatnonzero(labels == y) for y in np.unique(labels)}; and draw",
        "from these.",
    ),
)
KNOWN = (
    *FILES,
    *ARRAYS,
    *COPIES,
    *OPERATIONS,
    Known(  # pytorch.org/docs/stable/optim.html: weight averaging (SWA and EMA)
        re.compile(rf"\bdeepcopy\([^#]*\bstate_dict\(|\]\s*=\s*[^#=]*\*\s*\(?(?:1(?:\.0*)?\s*-\s*)?{_RATE}"),
        "an average of weights changed in place",
        (
            "Under torch.no_grad(), torch._foreach_lerp_(list(average.parameters()),",
            "list(model.parameters()), 1 - decay) changes it without a copy; so does",
            "torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay). Of a dict of weights,",
            "take average.values(). Copy buffers, too.",
        ),
        r"copy\.|torch\.",
        kinds=("loop",),
        anywhere=True,
    ),
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
        "signals at the rate of training",
        (
            "Where files have another rate, each load resamples them. Save them once at the rate that",
            "training takes.",
        ),
        r"(?:librosa|torchaudio|resampy|soxr)\.(?:resample|load)|scipy\.resample\w*$",
        most=None,
    ),
    Known(  # `axis` in the reference of scipy.interpolate.interp1d; np.interp builds nothing
        re.compile(r"\b(?:interp1d|CubicSpline|make_interp_spline)\("),
        "np.interp, or many samples at once",
        (
            "A function is built for each sample. np.interp does the same for kind='linear'. Else,",
            "where samples have one axis, interpolate many of them at once: interp1d(axis, many, axis=1),",
            "when the dataset is made, or of a file when it is read.",
        ),
        r"scipy\.(?:interp1d\.__init__|_Interpolator1D\.__call__|CubicSpline\.__init__|make_interp_spline"
        r"|_?PPoly\w*\.__call__|BSpline\.__call__)$",
        most=None,
    ),
    Known(  # scipy 1.15: filters by rank have a fast way for arrays of one axis, and for these only
        re.compile(
            r"\b(?:median|rank|percentile)_filter\([^#]*\bsize\s*=\s*[(\[]\s*"
            r"(?:1\s*,\s*\w+|\w+\s*,\s*1)\s*[)\]]"
        ),
        "a filter of each row by itself",
        (
            "Since SciPy 1.15, such filters are fast on an array of one axis: 26 to 49 times as fast in",
            "a trial (4 rows of 2,000 numbers, sizes 51 and 151), with equal numbers.",
            "np.stack([median_filter(row, size=n) for row in x]).",
        ),
        r"scipy\.(?:median|rank|percentile)_filter$",
        most=None,
    ),
    Known(  # skimage.transform.resize makes floats of 64 bits; scipy.ndimage filters them as splines where order > 1
        re.compile(
            r"\b(?:zoom|rotate|resize|rescale|affine_transform|map_coordinates|gaussian\w*|median_filter"
            r"|uniform_filter|rgb2gray|rgb2lab|equalize_adapthist)\("
        ),
        "OpenCV for images",
        (
            "scipy.ndimage and skimage compute in 64 bits. For images, resize (INTER_AREA to shrink),",
            "warpAffine, remap, GaussianBlur, medianBlur, createCLAHE and cvtColor of cv2 take a part of",
            "the time; values differ a little. Of a volume, order=1 needs less than 3, and",
            "torch.nn.functional.interpolate less again.",
        ),
        r"scipy\.(?:zoom|rotate|affine_transform|map_coordinates|gaussian_filter|median_filter|uniform_filter)$"
        r"|skimage\.(?:resize|rotate|rescale|gaussian|fixed_func|equalize_adapthist|rgb2\w+)$",
        most=None,
    ),
    Known(  # torch/distributions/distribution.py, `validate_args`
        re.compile(r"\b(?:Beta|Normal|Uniform)\("),
        "numbers drawn without a distribution",
        (
            "Each object of torch.distributions checks and spreads its arguments. Draw by torch.randn,",
            "torch.rand or np.random.beta; or make it once, where its arguments are the same.",
        ),
        r"torch\.(?:Distribution|Beta|Normal|Uniform)\.(?:__init__|r?sample)$",
        most=None,
    ),
    Known(
        re.compile(r"\bImageFont\.(?:truetype|load_default)\((?:[^#]*['\"]|\s*self\.\w+\s*[,)]|\s*\d*\s*\))"),
        "the font loaded once",
        ("It is loaded for each sample. Load it once, when the dataset is made; once for each size.",),
        r"PIL\.(?:truetype|load_default)$",
        most=None,
        same=True,
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
        re.compile(r"\b(?:json|ujson|simplejson)\.loads?\("),
        "texts parsed once",
        (
            "JSON is parsed for each sample, in each pass. Parse each text once, before training, and",
            "keep only what is used: best in arrays. orjson and msgspec parse faster.",
        ),
        r"json\.|simplejson\.",
        most=None,
        same=True,
        kinds=("getitem", "function"),
    ),
    Known(  # docs.python.org/3/howto/logging.html#optimization
        re.compile(r"\b_?(?:log|logger|logging)\.(?:debug|info|warning|error|exception|critical|log)\(", re.IGNORECASE),
        "fewer log records",
        (
            "Each record is built, made a text, written and flushed. Log one of many, or at a level that",
            "is off, behind logger.isEnabledFor(level).",
        ),
        r"logging\.|loguru\.",
        most=None,
        anywhere=True,
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
OF_INDICES = {one.title: one for one in KNOWN if one.draws}
"""What holds in samplers, too, by its title."""
