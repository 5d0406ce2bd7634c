"""The table of the lines that other people's programs are slow by: how each is known, and what is written instead.

Where no source is given, the other way does less by what the line says: it is done once, or for all at a time.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Known(NamedTuple):
    """A line in which `pattern` is found, and how it is written instead.

    `calls` is what the line calls then, of a library in Python. Functions that are not of Python do not show in a look:
    where the line calls nothing that is seen, it must call no more than `most` functions that are not in `beside`
    (None: it must call what is in `calls`). `same`: it is only slow if the dataset does it for each sample, with what
    does not change. `in_loop`: only in a loop. `begins`: not where a loop follows in the function, which needs the
    line once. `kinds`: only in rows of these kinds. Not `sure`: the text does not tell enough to make it the next step.
    In a loop that makes its batches itself, `alone` is said in place of `how`; what has none and does not hold
    `anywhere` is not told there.
    """

    pattern: re.Pattern[str]
    title: str
    how: tuple[str, ...]
    calls: str = ""
    most: int | None = 1
    beside: tuple[str, ...] = ()
    same: bool = False
    in_loop: bool = False
    begins: bool = False
    kinds: tuple[str, ...] = ()
    sure: bool = True
    alone: tuple[str, ...] = ()
    anywhere: bool = False


_NAMED = r"(?:self\.\w+|[rR]?'[^'{}%]+'|[rR]?\"[^\"{}%]+\")"  # a file that has one name
_FILE = rf"\(\s*{_NAMED}\s*[,)]"
_PARTLY = r"(?![^#]*\b(?:chunksize|iterator|skiprows|nrows)\b)"

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
NESTED = Known(
    re.compile(""),
    "operations on whole arrays",
    (
        "Python visits each element. Write it for the whole array in NumPy or torch; where no",
        "operation fits, numba.njit compiles the loops.",
    ),
    anywhere=True,
)
OPENED = Known(  # docs.python.org/3/library/zipfile.html: each opening reads the directory anew
    re.compile(
        rf"\b(?:h5py\.File|zarr\.open(?:_group|_array|_consolidated)?|tarfile\.open|(?:zipfile\.)?ZipFile"
        rf"|sqlite3\.connect|lmdb\.open|xr\.open_(?:dataset|zarr)|netCDF4\.Dataset|rasterio\.open|pq\.ParquetFile){_FILE}"
    ),
    "the file opened once in each worker",
    (
        "The same file is opened for each sample. Open it at the first sample of a worker",
        "(if self.file is None: self.file = ...), and keep it open.",
    ),
    r"h5py\.File|zarr\.|tarfile\.TarFile\.(?:open|\w+open|__init__)|zipfile\.ZipFile\.__init__|xarray\.|pyarrow\.|rasterio\.",
    same=True,
    alone=("The same file is opened again and again. Open it once, before the loop.",),
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
    Known(  # `CvCapture_FFMPEG::seek` goes back to a key frame and grabs (modules/videoio/src/cap_ffmpeg_impl.hpp)
        re.compile(r"\.set\(\s*(?:\w+\.)*CAP_PROP_POS_(?:FRAMES|MSEC)\b"),
        "frames read on, without seeking",
        (
            "A seek decodes again from the key frame before it. Seek once, to the first frame of",
            "a clip, and read on from there; grab() passes over a frame that is not needed.",
        ),
        begins=True,
    ),
    Known(  # each element of the column is compared
        re.compile(r"(self(?:\.\w+)+)(?:\.loc)?\[\s*[~(]*\s*\1(?:\[[^\]]+\]|\.\w+)(?:\s*==|\.(?:eq|isin)\()"),
        "rows found without comparing a column",
        (
            "The whole column is compared for each sample. When the dataset is made, collect the rows",
            "of each value once: places = frame.groupby(name).indices. A sample has",
            "frame.iloc[places[value]], or the same rows of arrays.",
        ),
        r"pandas\.",
        most=None,
        same=True,
    ),
    Known(  # pandas.pydata.org/docs/reference/api/pandas.DataFrame.iterrows.html: a Series for each row
        re.compile(r"\.iterrows\(\)|\.apply\([^#]*\baxis\s*=\s*(?:1|['\"]columns)"),
        "columns in place of rows",
        (
            "pandas builds a Series for each row. Go through the columns instead:",
            "zip(frame['a'], frame['b']), or operations on frame['a'].to_numpy().",
        ),
        r"pandas\.",
        most=None,
        anywhere=True,
    ),
    Known(  # a row becomes a Series, of objects where types differ
        re.compile(r"\.i?loc\[(?![^\],]*:|(?:[^\[\]]|\[[^\]]*\])*(?:[=!<>]=|[<>]|\.(?:eq|isin)\())"),
        "columns as arrays",
        (
            "pandas builds an object for each row. Take the columns out once, when the dataset is",
            "made: values = frame[names].to_numpy(), and index the arrays.",
        ),
        r"pandas\.",
        most=None,
        alone=("pandas builds an object for each row. Index arrays: frame[names].to_numpy(), made once.",),
    ),
    Known(  # github.com/numpy/numpy/pull/9855; `shuffle` in the reference of `numpy.random.Generator.choice`
        re.compile(r"\b(?:np|numpy)\.random\.choice\((?=[^#]*replace\s*=\s*False)(?![^#]*\bp\s*=)"),
        "numbers drawn without a permutation",
        (
            "np.random.choice permutes all numbers to draw a few; rng.choice(n, size, replace=False,",
            "shuffle=False) does not. Make rng in each worker, at its first sample, or all workers",
            "draw the same numbers: rng = np.random.default_rng(torch.initial_seed()). To draw a few,",
            "random.sample(range(n), size) is enough: torch seeds it in each worker.",
        ),
        alone=(
            "np.random.choice permutes all numbers to draw a few; rng.choice(n, size, replace=False,",
            "shuffle=False) does not, with rng = np.random.default_rng(), made once.",
        ),
    ),
    Known(  # numpy/random/mtrand.pyx: `cdf = p.cumsum()`, and then a search in it, for each call
        re.compile(r"\.choice\((?=[^#]*\bp\s*=)(?![^#]*replace\s*=\s*False)"),
        "weights summed up once",
        (
            "NumPy's choice checks and sums up all weights in each call. Keep sums = np.cumsum(weights);",
            "a draw is np.searchsorted(sums, sums[-1] * np.random.random(size), side='right'). Where",
            "a few weights change between draws, a tree of sums takes few operations for each.",
        ),
        anywhere=True,
    ),
    Known(  # the labels of the whole data set, as for a positive and a negative of a triplet
        re.compile(
            r"\bnp\.(?:where|nonzero|flatnonzero|argwhere)\(\s*(?:np\.(?:as)?array\()?self\.\w+\)?\s*[=!]="
            r"|\bfor\s+\w+\s*,\s*\w+\s+in\s+enumerate\(\s*self\.\w+\s*\)\s*if\b"
            r"|\bfor\s+\w+\s+in\s+range\(\s*len\(\s*self(?:\.\w+)?\s*\)\s*\)\s*if\s[^#]*self\.\w+\["
        ),
        "places of each label collected once",
        (
            "All labels are compared for each sample. When the dataset is made, collect the places of",
            "each: places = {y: np.flatnonzero(labels == y) for y in np.unique(labels)}.",
        ),
        most=0,
        beside=("array", "asarray", "choice", "choices", "sample", "where", "nonzero", "flatnonzero", "argwhere"),
        same=True,
    ),
    Known(  # github.com/pytorch/pytorch/issues/13918; lists of numbers are walked in the same way
        re.compile(r"\btorch\.(?:(?:as_)?tensor|(?:Float|Double|Long|Int)?Tensor)\("),
        "tensors of arrays, not of lists",
        (
            "Of lists of numbers or arrays, torch.tensor takes each one by itself. Keep arrays:",
            "torch.from_numpy(np.stack(...)), or pad_sequence of torch.from_numpy(...).",
        ),
        beside=("tolist",),
        sure=False,
    ),
    Known(  # github.com/numpy/numpy/issues/28795
        re.compile(r"\bnp\.load\((?=[^#]*\.npz)(?=[^#]*mmap_mode)"),
        "arrays in .npy files",
        (
            "np.load ignores mmap_mode for .npz: the whole array is read and unpacked. Save each",
            "array as .npy once; with mmap_mode='r', only the part that is used is read.",
        ),
        r"numpy\.",
        most=None,
        anywhere=True,
    ),
    Known(  # numpy.org/doc/stable/reference/generated/numpy.load.html: an array is read when its key is asked for
        re.compile(r"\bself\.\w+\[[^\]]+\]"),
        "arrays taken out of the archive once",
        (
            "An archive that np.load keeps open reads and unpacks the whole array each time that its",
            "key is asked for. Take the arrays out when the dataset is made, or save each as .npy and",
            "open it with mmap_mode='r'.",
        ),
        r"numpy\.(?:\w+\.)*NpzFile\.__getitem__$",
        most=None,
    ),
    Known(  # it runs Python code for each object inside
        re.compile(r"\b(?:copy\.)?deepcopy\("),
        "no deep copy of a sample",
        ("Copy only what the transforms change, such as array.copy() or dict(sample).",),
        r"copy\.",
        most=None,
    ),
    Known(
        re.compile(
            rf"(?<![\w.])(?:(?:json|pickle|yaml)\.(?:safe_)?load\(\s*(?:(?:io|gzip|bz2)\.)?open"
            rf"|(?:pd|pandas)\.read_(?:csv|json|parquet|excel|pickle|table)(?=\({_PARTLY})"
            rf"|(?:ET|etree|ElementTree|minidom)\.parse|(?:scipy\.io\.)?loadmat|np\.(?:loadtxt|genfromtxt)"
            rf"|torch\.load){_FILE}"
        ),
        "the file read once",
        (
            "The same file is read and parsed for each sample. Do it once, when the dataset is made,",
            "and index what it gave: best in arrays, which workers share.",
        ),
        r"json\.|yaml\.|pandas\.|xml\.|scipy\.|numpy\.|torch\.load|pickle\.|codecs\.",
        beside=("open",),
        same=True,
        alone=("The same file is read and parsed again and again. Do it once, before the loop.",),
    ),
    Known(
        re.compile(rf"\bopen{_FILE}[^#]*?(?:\.readlines\(\)|\.read\(\)\.split(?:lines)?\([^()]*\))\s*\["),
        "a line by its place in the file",
        (
            "The whole file is read for one line. Keep the place of each line once, by f.tell() before",
            "each f.readline(); a sample then needs f.seek(place) and f.readline().",
        ),
        r"codecs\.",
        most=0,
        beside=("open", "read", "readlines", "split", "splitlines"),
        same=True,
    ),
    OPENED,
    Known(  # docs.python.org/3/library/tarfile.html: `getmember` goes through the headers, of which there is no index
        re.compile(r"\.(?:extractfile|getmember|getmembers|getnames)\("),
        "members of a tar by their places",
        (
            "A tar has no index: all headers are read, or gone through, to find a name. Once, keep",
            "{m.name: (m.offset_data, m.size) for m in tar}; a sample then needs seek and read of",
            "the plain file. Of a compressed tar, unpack it first.",
        ),
        r"tarfile\.TarFile\.(?:extractfile|getmember|getmembers|getnames|_getmember|_load)$",
        most=None,
    ),
    Known(  # docs.h5py.org/en/stable/high/dataset.html: slices are read from the disk, and only they
        re.compile(r"\[\s*[rR]?['\"][^'\"]+['\"]\s*\]\s*\[\s*(?::|\.\.\.|\(\))\s*\]\s*\["),
        "only the part that is used",
        ("The whole array is read before it is indexed. Index the file's own array: f[name][index].",),
        r"h5py\.|zarr\.",
        most=None,
    ),
    Known(
        re.compile(rf"\bnp\.load\(\s*{_NAMED}\s*\)\s*\[\s*(?!None\b)\w+\s*\]"),
        "only the part that is used",
        (
            "np.load reads the whole array of a .npy before it is indexed. With mmap_mode='r', only the",
            "part that is used is read.",
        ),
        r"numpy\.load$",
        most=None,
        same=True,
        anywhere=True,
    ),
    Known(  # nipy.org/nibabel/images_and_memory.html
        re.compile(r"\.get_fdata\([^)]*\)\s*\[(?!\s*(?:None|np\.newaxis|\.\.\.))"),
        "a part of the volume",
        (
            "get_fdata() reads and scales the whole volume. img.dataobj[..., k] reads a part of an",
            "uncompressed .nii; a .nii.gz has to be unpacked up to there, so unpack it once.",
        ),
        r"nibabel\.",
        most=None,
    ),
    Known(  # a file of text for each sample, such as a point cloud
        re.compile(rf"\b(?:np\.(?:loadtxt|genfromtxt)|(?:pd|pandas)\.read_csv)\({_PARTLY}"),
        "files that need no parsing",
        (
            "Numbers are parsed from text in each pass. Save each file as .npy once (a table with",
            "texts as .parquet), and load that.",
        ),
        r"numpy\.(?:loadtxt|genfromtxt)|pandas\.read_csv$",
        most=None,
        same=True,
    ),
    Known(
        re.compile(
            r"\b(?:os\.(?:listdir|scandir|walk)|i?glob\.i?glob|glob)\(|\.(?:iterdir|r?glob)\(",
        ),
        "folders listed once",
        ("A folder is listed for each sample. List it once, when the dataset is made.",),
        r"glob\.|pathlib\.|os\.walk",
        beside=("join", "sorted", "Path", "str", "natsorted"),
        same=True,
    ),
    Known(
        re.compile(r"\bself\.\w+\.index\("),
        "a dict in place of list.index",
        (
            "list.index compares one item after the other. Once, when the dataset is made:",
            "place = {item: at for at, item in enumerate(items)}; a sample has place[item].",
        ),
        same=True,
    ),
    Known(
        re.compile(r"\bsum\(\s*(?:\[[^#]*\]|\([^#]*\)|\w[\w.]*)\s*,\s*\[\s*\]\s*\)"),
        "lists joined by chain",
        ("sum copies the list again for each one. list(itertools.chain.from_iterable(lists)) does not.",),
    ),
    Known(
        re.compile(
            r"^(\w+)\s*=\s*(?:np|numpy|torch)\.(?:concatenate|concat|cat|vstack|hstack|append)\(\s*[\[(]?\s*\1\s*,"
        ),
        "parts joined once",
        (
            "Each turn of the loop copies all that was there before. Collect the parts in a list, and",
            "join them once.",
        ),
        r"numpy\.(?:append|vstack|hstack|concatenate|atleast_\w+)",
        in_loop=True,
        anywhere=True,
    ),
    Known(  # numpy.org/doc/stable/reference/generated/numpy.vectorize.html: "essentially a for loop"
        re.compile(r"\bnp\.(?:vectorize|apply_along_axis|frompyfunc)\("),
        "operations on whole arrays",
        (
            "NumPy calls a Python function for each element here. Write it for the whole array;",
            "integers are mapped by a table: table[array].",
        ),
        r"numpy\.(?:vectorize|apply_along_axis)",
        most=9,
        anywhere=True,
    ),
    Known(  # pillow.readthedocs.io/en/stable/reference/PixelAccess.html: "fairly slow"
        re.compile(r"\.(?:getpixel|putpixel)\(|\b(?:list|np\.(?:as)?array)\(\s*[\w.]+\.getdata\(\)\s*[,)]"),
        "the image as an array",
        ("Each pixel becomes an object of Python. Take np.asarray(image), and work on the whole array.",),
        r"PIL\.Image\.(?:getpixel|putpixel|getdata)",
        beside=("array", "asarray"),
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
