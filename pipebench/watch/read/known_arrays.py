"""Slow lines over tables, arrays and lists: what is gone through for each sample, or by Python for each element.

Where no source is given, the other way does less by what the line says: it is done once, or for all at a time.
"""

from __future__ import annotations

import re

from pipebench.watch.read.known_row import Known

_SAME = r"(?:self\.\w+|[A-Z][A-Z_\d]*)"  # the same for each sample
_MAKES = ("array", "asarray", "tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "LongTensor", "IntTensor")
_BY_ELEMENT = ("mean", "std", "min", "max", "clip", "astype")
NESTED = Known(
    re.compile(""),
    "operations on whole arrays",
    (
        "Python visits each element. Write it for the whole array in NumPy or torch; where no",
        "operation fits, numba.njit compiles the loops.",
    ),
    anywhere=True,
)
OF_ROWS = "columns as arrays"
COLUMNS = (
    "pandas builds an object for each row or slice. Take the columns out once, when the dataset",
    "is made: values = frame[names].to_numpy(), and index or slice the arrays.",
)
ROWS_ALONE = ("pandas builds an object for each row. Index arrays: frame[names].to_numpy(), made once.",)
OF_LISTS = "tensors of arrays, not of lists"
FILLED = Known(
    re.compile(""),
    "whole rows, not single elements",
    (
        "Python sets each element. Set a whole row: rows[i, : len(ids)] = ids, where ids is a tensor",
        "or an array; or let torch.nn.utils.rnn.pad_sequence make the batch of the tensors.",
    ),
)
ARRAYS = (
    Known(  # each element of the column is compared
        re.compile(
            r"(self(?:\.\w+)+)(?:\.loc)?\[\s*[~(]*\s*\1(?:\[[^\]]+\]|\.\w+)(?:\s*==|\.(?:eq|isin)\()"
            r"|\bself\.\w+\.(?:query\(|groupby\([^#]*\.get_group\()"
        ),
        "rows found without comparing a column",
        (
            "The whole column is compared for each sample. When the dataset is made, collect the rows",
            "of each value once: places = frame.groupby(name).indices. A sample has",
            "frame.iloc[places[value]], or the same rows of arrays.",
        ),
        r"pandas\.",
        most=None,
        same=True,
        draws=True,
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
        re.compile(
            r"\.i?loc\[(?![^\],]*:|(?:[^\[\]]|\[[^\]]*\])*(?:[=!<>]=|[<>]|\.(?:eq|isin)\())"
            r"|\.iloc\[\s*\w[^\],]*:[^\],]*[\],]"
        ),
        OF_ROWS,
        COLUMNS,
        r"pandas\.",
        most=None,
        alone=ROWS_ALONE,
    ),
    Known(  # the same, of what is then done with such a row
        re.compile(r"(?<![\w.])(\w+)\s*(?:\[|\.\w)"),
        OF_ROWS,
        COLUMNS,
        r"pandas\.(?:\w+\.)*(?:Series|NDFrame|IndexOpsMixin)\.\w+$",
        most=None,
        near=r"\bNAME\s*=(?!=)[^#]*\.i?loc\[",
        alone=ROWS_ALONE,
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
        draws=True,
    ),
    Known(  # numpy/random/mtrand.pyx: `cdf = p.cumsum()`, and then a search in it, for each call
        re.compile(r"\.choice\((?=[^#]*\bp\s*=)(?![^#]*replace\s*=\s*False)"),
        "weights summed up once",
        (
            "NumPy's choice checks and sums up all weights in each call. Keep sums = np.cumsum(weights);",
            "a draw is np.searchsorted(sums, sums[-1] * np.random.random(size), side='right'). Where",
            "a few weights change between draws, a tree of sums takes few operations for each.",
        ),
        kinds=("loop",),
        anywhere=True,
        draws=True,
    ),
    Known(  # numpy/random/mtrand.pyx, `choice`: the sums of `p`, and a place in them, found in the same way
        re.compile(
            rf"\.choice\((?=[^#]*\bp\s*=\s*({_SAME})(?:\s*/\s*(?:\1\.sum\(\)|np\.sum\(\s*\1\s*\)))?\s*[,)])"
            rf"(?![^#]*replace\s*=\s*False)"
            rf"|\bchoices\((?:[^#]*\bweights\s*=\s*|\s*[\w.]+\s*,\s*){_SAME}\s*[,)]"
        ),
        "weights summed once",
        (
            "All weights are summed for each draw. Sum them once, when the dataset is made, and keep:",
            "sums = np.cumsum(weights); sums /= sums[-1]. A draw is np.searchsorted(sums,",
            "np.random.random(k), side='right'). random.choices takes a list of them: cum_weights.",
        ),
        r"random\.Random\.choices$|numpy\._sum$",
        most=0,
        beside=("choice", "choices", "sum", "from_numpy", "tensor", "as_tensor"),
        same=True,
        draws=True,
    ),
    Known(  # docs.python.org/3/library/stdtypes.html: a set finds an item by its hash
        re.compile(
            r"(?:^|\bif\b)(?:(?!\bfor\b)[^#])*?\bin\s+(?:\([^#()]*\belse\s+)?"
            rf"({_SAME})\b(?!\s*[.\[(])"
        ),
        "a set in place of a list",
        (
            "`in` compares one item of a list or an array after the other. Make a set of it once, when",
            "the dataset is made: known = set(items), of an array set(items.tolist()).",
        ),
        most=0,
        beside=("random", "randrange", "randint"),
        listed=True,
        draws=True,
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
        draws=True,
    ),
    Known(  # an operation on each element gives the same behind the cut
        re.compile(
            r"^(\w+)\s*=\s*(?=[^#]*(?:\.astype\(|\bclip\(|\.mean\(|\.std\(|/\s*255|\(\s*\1\s*-))"
            r"(?:(?!(?:open|load|read)\w*\()[^#\[])*(?:#.*)?$"
        ),
        "the part cut out first",
        (
            "The whole array is gone through, and then a part of it is kept. Cut the part out first. The",
            "mean and the deviation of a whole array need to be taken only once: keep them.",
        ),
        r"numpy\.(?:clip|_clip|_mean|_std|_var|_amin|_amax|mean|std|var)$",
        most=0,
        beside=_BY_ELEMENT,
        cut=True,
    ),
    Known(
        re.compile(
            r"\b(?:(?:np|numpy)\.(?:as)?array|torch\.(?:(?:as_)?tensor|(?:Float|Double|Long|Int)?Tensor))"
            r"\(\s*(self\.\w+)\s*[,)]"
        ),
        "the array made once",
        (
            "The same list or array is copied for each sample. Make the array once, when the dataset is",
            "made: self.items = np.array(items), and index that.",
        ),
        most=0,
        beside=_MAKES,
        same=True,
        listed=True,
    ),
    Known(  # numpy.org/doc/stable/reference/generated/numpy.argpartition.html; the key is a call for each item
        re.compile(r"\bsorted\(\s*range\([^#]*\bkey\s*=[^#]*\)\s*\[\s*(?:1\s*)?:\s*\w"),
        "the first ones without a sort",
        (
            "sorted() asks Python for the key of each item, to keep a few. Of an array, take",
            "np.argpartition(scores, k)[:k] (the k smallest), or torch.topk(scores, k).indices.",
        ),
        most=0,
        beside=("sorted",),
    ),
    Known(  # wiki.python.org/moin/TimeComplexity: all items behind it move
        re.compile(r"\.pop\(\s*0\s*\)|\.insert\(\s*0\s*,"),
        "a deque in place of a list",
        (
            "All items of the list move, for the one at its begin. collections.deque has popleft() and",
            "appendleft(); of a list that is only read, count a place up.",
        ),
        most=0,
        beside=("pop", "insert", "append"),
    ),
    Known(
        re.compile(r"\w\[\s*\w+\s*,\s*\w+\s*\]\s*\+=\s*1\b|^for\s[^#]*\bzip\([^#]*\.tolist\(\)"),
        "pairs counted at once",
        (
            "Python visits each pair of labels. torch.bincount(n * target.flatten() +",
            "prediction.flatten(), minlength=n * n).view(n, n) counts those of a whole batch.",
        ),
        beside=("tolist", "flatten", "view", "reshape", "cpu", "numpy"),
        in_loop=True,
        kinds=("loop",),
        anywhere=True,
    ),
    Known(  # the same of what samples hold: numbers alone would take no time there
        re.compile(r"\btorch\.(?:as_)?tensor\(\s*\[\s*\w+(?:\[[^\]]+\]|\.\w+)\s+for\s+\w+\s+in\b"),
        "arrays or tensors in samples, and stacked",
        (
            "torch.tensor takes lists apart number by number, and of arrays each one by itself. Let the",
            "dataset return arrays or tensors (no .tolist()), and stack them in collate_fn:",
            "torch.stack([...]), or torch.from_numpy(np.stack([...])).",
        ),
        most=0,
        beside=("tolist", "tensor", "as_tensor"),
        kinds=("collate",),
    ),
    Known(  # github.com/pytorch/pytorch/issues/13918; lists of numbers are walked in the same way
        re.compile(r"\btorch\.(?:(?:as_)?tensor|(?:Float|Double|Long|Int)?Tensor)\("),
        OF_LISTS,
        (
            "Of lists of numbers or arrays, torch.tensor takes each one by itself. Keep arrays:",
            "torch.from_numpy(np.stack(...)), or pad_sequence of torch.from_numpy(...).",
        ),
        beside=("tolist",),
        sure=False,
        alone=(
            "Of lists of numbers or arrays, torch.tensor takes each one by itself. Convert what is kept",
            "once, when it is stored: np.asarray(x, dtype=np.float32). Then a batch is",
            "torch.from_numpy(np.stack(...)).",
        ),
    ),
    Known(
        re.compile(r"\bself\.\w+\.index\("),
        "a dict in place of list.index",
        (
            "list.index compares one item after the other. Once, when the dataset is made:",
            "place = {item: at for at, item in enumerate(items)}; a sample has place[item].",
        ),
        same=True,
        draws=True,
    ),
    Known(
        re.compile(r"\bsum\(\s*(?:\[[^#]*\]|\([^#]*\)|\w[\w.]*)\s*,\s*\[\s*\]\s*\)"),
        "lists joined by chain",
        ("sum copies the list again for each one. list(itertools.chain.from_iterable(lists)) does not.",),
    ),
    Known(
        re.compile(
            r"(?:^|[:;]\s*)((?:self\.)?\w+)\s*=\s*(?:np|numpy|torch|pd|pandas)\."
            r"(?:concatenate|concat|cat|vstack|hstack|append)\(\s*[\[(]?\s*\1\s*,"
        ),
        "parts joined once",
        (
            "Each turn of the loop copies all that was there before. Collect the parts in a list, and",
            "join them once; or make the whole once, and fill it.",
        ),
        r"numpy\.(?:append|vstack|hstack|concatenate|atleast_\w+)|pandas\.concat$",
        in_loop=True,
        anywhere=True,
    ),
    Known(  # numpy.org/doc/stable/reference/generated/numpy.vectorize.html: "essentially a for loop"
        re.compile(r"\bnp\.(?:vectorize|apply_along_axis|frompyfunc)\("),
        "one operation on the whole array",
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
)
