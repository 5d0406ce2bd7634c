"""Lines that are known to be slow: by which text and call they are known, and where nothing must be said."""

from __future__ import annotations

from typing import Any

import pytest
from titled import title_of as _title

from pipebench.watch.read.known_arrays import FILLED, NESTED
from pipebench.watch.read.known_lines import Line, known, statement
from pipebench.watch.read.known_row import Known
from pipebench.watch.read.known_table import AGAIN, AGAIN_MADE, MODEL
from pipebench.watch.read.known_table import KNOWN as TABLE

WITH = "with open(self.path) as f:"
LOC, FRAME = "pandas._LocIndexer.__getitem__", "pandas.DataFrame.__getitem__"
TAR, MEL = "tarfile.TarFile.getmember", "torchaudio.MelSpectrogram.__init__"
KNOWN = [
    ("self.video.set(cv2.CAP_PROP_POS_FRAMES, number)", "", "frames read on, without seeking"),
    ("capture.set(CAP_PROP_POS_MSEC, 40 * number)", "", "frames read on, without seeking"),
    ("row = self.frame.iloc[index]", LOC, "columns as arrays"),
    ("row = frame.loc[index, 'price']", LOC, "columns as arrays"),
    ("past = self.frame.iloc[start:end][NAMES].to_numpy()", "pandas.DataFrame.__getitem__", "columns as arrays"),
    ("past = self.frame.iloc[at : at + 5, :3]", LOC, "columns as arrays"),
    ("wrong = np.random.choice(self.items, 20, replace=False)", "", "numbers drawn without a permutation"),
    ("row = self.rng.choice(self.rows, p=self.weights)", "", "weights summed once"),
    ("cut = np.load(f'{case}.npz', mmap_mode='r')['data']", "numpy.NpzFile.__getitem__", "arrays in .npy files"),
    ("return torch.tensor(waves, dtype=torch.float32), labels", "", "tensors of arrays, not of lists"),
    ("return torch.tensor(waves.tolist())", "", "tensors of arrays, not of lists"),
    ("return {'x': torch.tensor(signals), 'y': torch.tensor(labels)}", "", "tensors of arrays, not of lists"),
    ("return {'x': torch.tensor([e['x'] for e in batch])}", "", "tensors of arrays, not of lists"),
    ("return torch.FloatTensor(mels)", "", "tensors of arrays, not of lists"),
    ("sample = copy.deepcopy(self.samples[index])", "copy.deepcopy", "no deep copy of a sample"),
    ("mine = self.visits[self.visits['user'] == user]", FRAME, "rows found without comparing a column"),
    ("mine = self.visits.loc[self.visits.user == user]", "pandas.new_method", "rows found without comparing a column"),
    ("for _, row in group.iterrows():", "pandas.DataFrame.iterrows", "columns in place of rows"),
    ("boxes = json.load(open(self.path))[name]", "json.load", "the file read once"),
    ("table = pd.read_csv(self.path)", "pandas.read_csv", "the file read once"),
    ("boxes = pickle.load(open('/data/boxes.pkl', 'rb'))", "", "the file read once"),
    ("root = ET.parse(self.path).getroot()", "xml.parse", "the file read once"),
    ("text = open(self.path).readlines()[i]", "codecs.decode", "a line by its place in the file"),
    ("with h5py.File(self.path, 'r') as f:", "h5py.File.__init__", "the file opened once in each worker"),
    ("base = sqlite3.connect(self.path)", "", "the file opened once in each worker"),
    ("with zipfile.ZipFile(self.path) as one:", "zipfile.ZipFile.__init__", "the file opened once in each worker"),
    ("raw = tar.extractfile(name).read()", TAR, "members of a tar by their places"),
    ("x = f['images'][:][i]", "h5py.Dataset.__getitem__", "only the part that is used"),
    ("x = np.load(self.path)[i]", "numpy.load", "a file that is mapped"),
    ("cut = nib.load(path).get_fdata()[:, :, k]", "nibabel.DataobjImage.get_fdata", "a part of the volume"),
    ("points = np.loadtxt(self.paths[i], delimiter=',')", "numpy.loadtxt", "files that need no parsing"),
    ("names = sorted(os.listdir(os.path.join(self.root, name)))", "", "folders listed once"),
    ("names = glob.glob(f'{self.root}/{name}/*.png')", "glob.glob", "folders listed once"),
    ("label = self.names.index(name)", "", "a dict in place of list.index"),
    ("ids = sum(parts, [])", "", "lists joined by chain"),
    ("where = np.where(self.labels == label)[0]", "", "places of each label collected once"),
    ("same = np.random.choice(np.flatnonzero(self.labels == y))", "", "places of each label collected once"),
    ("same = [j for j, y in enumerate(self.labels) if y == label]", "", "places of each label collected once"),
    ("classes = np.vectorize(self.table.get)(mask)", "numpy.vectorize.__call__", "one operation on the whole array"),
    ("r, g, b = image.getpixel((x, y))", "PIL.Image.getpixel", "the image as an array"),
    ("values = list(image.getdata())", "", "the image as an array"),
    ("tok = AutoTokenizer.from_pretrained(self.name)", "transformers.AutoTokenizer.from_pretrained",
     "the model or tokenizer built once"),
    ("mel = torchaudio.transforms.MelSpectrogram(16000)(wave)", MEL, "the transform built once"),
    ("wave = F.resample(wave, rate, 16_000)", "torchaudio.resample", "signals at the rate of training"),
    ("wave, rate = librosa.load(path, sr=16000)", "librosa.load", "signals at the rate of training"),
    ("x = self.scaler.transform(row[None])[0]", "sklearn.wrapped", "whole tables for scikit-learn"),
    ("items = ast.literal_eval(self.items[i])", "ast.literal_eval", "texts parsed once"),
    ("x = json.loads(self.lines[i])", "json.loads", "texts parsed once"),
    ("boxes = json.load(open(f'{self.root}/{i}.json'))", "json.load", "texts parsed once"),
    ("logger.debug('item %d', i)", "logging.Logger.debug", "fewer log records"),
    ("for k in range(20): log.info('item %d', i)", "logging.Logger.info", "fewer log records"),
    ("x = np.load(PATH)['x']", "numpy.NpzFile.__getitem__", "the file read once"),
    ("x = self.x if KEPT else np.load(self.path, allow_pickle=True)['x']", "", "the file read once"),
    ("keys = KEYS if KEPT else sorted(self.keys)", "", "items sorted once"),
    ("order = np.argsort(self.scores)", "numpy.argsort", "items sorted once"),
    ("names = sorted(list(self.table.keys()))", "", "items sorted once"),
    ("known = set(self.items)", "", "a set or list made once"),
    ("day = datetime.strptime(self.days[i], '%Y-%m-%d')", "_strptime._strptime_datetime", "dates parsed once"),
    ("x = self.data['x'][i]", "numpy.NpzFile.__getitem__", "arrays taken out of the archive once"),
    ("x = f['images'][i]", "h5py.Dataset.__getitem__", "chunks that hold what a sample reads"),
    ("x = self.root[i]", "zarr.Array.__getitem__", "chunks that hold what a sample reads"),
    ("rows = db.execute('SELECT a FROM t WHERE user = ?', (u,)).fetchall()", "", "an index on the columns of WHERE"),
    ('rows = db.execute(f"""select a from t where t.user = {u}""").fetchall()', "", "an index on the columns of WHERE"),
    ("rows = self.connection().execute('SELECT a FROM t WHERE b = ?', (u,))", "", "an index on the columns of WHERE"),
    ("row = db.execute('SELECT a FROM t ORDER BY a LIMIT 1 OFFSET ?', (i,)).fetchone()", "", "rows found by their key"),
    ("x = json.loads(open(self.path).read())[i]", "json.loads", "the file read once"),
    ("x = json.loads(Path(self.path).read_text())[i]", "json.loads", "the file read once"),
    ("x = json.loads(self.path.read_text())[i]", "json.loads", "the file read once"),
    ("mine = self.visits.query('user == @user')", "pandas.DataFrame.query", "rows found without comparing a column"),
    ("mine = self.visits.groupby('user').get_group(user)", "pandas.DataFrame.groupby",
     "rows found without comparing a column"),
    ("wrong = np.random.choice(N, size=self.n, p=self.probs)", "", "weights summed once"),
    ("wrong = self.rng.choice(len(self.items), self.n, p=PROBS)", "", "weights summed once"),
    ("wrong = np.random.choice(N, p=self.weights / self.weights.sum(), size=4)", "", "weights summed once"),
    ("i = random.choices(self.items, weights=self.weights, k=4)", "random.Random.choices", "weights summed once"),
    ("i = random.choices(self.items, self.weights)[0]", "random.Random.choices", "weights summed once"),
    ("near = sorted(range(len(d)), key=lambda j: d[j])[:self.k]", "", "the first ones without a sort"),
    ("near = sorted(range(n), key=d.__getitem__)[1:k + 1]", "", "the first ones without a sort"),
    ("item = self.buffer.pop(0)", "", "a deque in place of a list"),
    ("window.insert(0, x)", "", "a deque in place of a list"),
    ("y = interp1d(axis, x[i], kind='cubic')(AXIS)", "scipy.interp1d.__init__", "np.interp, or many samples at once"),
    ("y = interp1d(self.axis, x)(AXIS)", "scipy._Interpolator1D.__call__", "np.interp, or many samples at once"),
    ("x = signal.resample(x, n, axis=-1)", "scipy.resample", "signals at the rate of training"),
    ("x = ndimage.zoom(x, 2)", "scipy.zoom", "OpenCV for images"),
    ("x = median_filter(x, size=(1, WIDTH), mode='wrap')", "scipy.median_filter", "a filter of each row by itself"),
    ("x = ndimage.median_filter(x, [9, 1])", "scipy.median_filter", "OpenCV for images"),  # in other words: not seen
    ("x = median_filter(x, size=(9, 9))", "scipy.median_filter", "OpenCV for images"),
    ("x = rescale(x, 0.5, channel_axis=-1)", "skimage.fixed_func", "OpenCV for images"),
    ("lam = torch.distributions.Beta(a, a).sample()", "torch.Beta.__init__", "numbers drawn without a distribution"),
    ("font = ImageFont.truetype('Sans.ttf', 20)", "PIL.truetype", "the font loaded once"),
    ("font = ImageFont.load_default()", "PIL.load_default", "the font loaded once"),
    ("ids = self.tokenizer(self.texts[i], truncation=True)", "transformers.PreTrainedTokenizerBase.__call__",
     "texts tokenized once"),
]  # fmt: skip
SILENT = [
    ("self.video.set(cv2.CAP_PROP_FRAME_WIDTH, 96)", ""),
    ("self.video.set(cv2.CAP_PROP_POS_FRAMES, self.places.find(name))", ""),  # which of both is not known
    ("wave, rate = torchaudio.load(self.frame.iloc[index, 0])", "torchaudio.load"),
    ("image = cv2.imread(self.frame.path.iloc[index])", ""),  # in C
    ("values = frame.loc[:, names]", LOC),  # columns
    ("wrong = np.random.choice(self.items, 20, replace=False, p=weights)", ""),
    ("wrong = rng.choice(self.items, 20, replace=False)", ""),
    ("wrong = np.random.choice(self.items, 20)", ""),
    ("cut = np.load(f'{case}.npy', mmap_mode='r')", "numpy.load"),
    ("return torch.tensor(soundfile.read(path)[0])", "soundfile.read"),
    ("return torch.tensor(cv2.imread(path))", ""),
    ("return torch.zeros(len(samples), longest)", ""),
    ("sample = dict(self.samples[index])", ""),
    ("mine = frame[frame['user'] == user]", FRAME),  # a frame of this sample
    ("mine = self.visits[self.places[user]]", FRAME),
    ("mine = frame.loc[frame['user'] == user]", "pandas.new_method"),
    ("boxes = pickle.load(self.file)", ""),  # the next object of an open file
    ("self.boxes = json.load(open(self.path))", "json.load"),  # kept
    ("for chunk in pd.read_csv(self.path, chunksize=1000):", "pandas.TextFileReader.__next__"),
    ("text = open(self.paths[i]).readlines()[0]", ""),
    ("with h5py.File(self.paths[i], 'r') as f:", "h5py.File.__init__"),
    ("self.file = h5py.File(self.path, 'r')", "h5py.File.__init__"),
    ("raw = tar.extractfile(member).read()", "tarfile._FileInFile.read"),
    ("x = self.file['images']", "h5py.Group.__getitem__"),
    ("row = db.execute('SELECT a FROM t WHERE id = ?', (i,)).fetchone()", ""),  # its key
    ("row = db.execute('SELECT a FROM t WHERE rowid = ?', (i,)).fetchone()", ""),
    ("rows = db.execute('SELECT a FROM t').fetchall()", ""),
    ("db.execute('INSERT INTO t SELECT a FROM u WHERE b = ?', (i,))", ""),
    ("x = decode(db.execute('SELECT a FROM t WHERE b = ?', (i,)).fetchone())", ""),  # which of both is not known
    ("mine = frame.query('user == 3')", "pandas.DataFrame.query"),  # of this sample
    ("for name, part in self.visits.groupby('user'):", "pandas.DataFrame.groupby"),
    ("wrong = np.random.choice(N, size=4, p=self.probs[label])", ""),  # others for each sample
    ("wrong = np.random.choice(N, size=4, p=probs)", ""),
    ("wrong = np.random.choice(N, size=4, replace=False, p=self.probs)", ""),
    ("wrong = self.read(np.random.choice(N, p=self.probs))", ""),  # another call
    ("i = random.choices(self.items, k=4)", "random.Random.choices"),
    ("i = random.choices(self.items, cum_weights=self.sums)", "random.Random.choices"),
    ("i = random.choices(self.items, weights=weights)", "random.Random.choices"),
    ("near = sorted(range(n), key=d.__getitem__)", ""),  # all of them
    ("near = sorted(range(n), key=lambda j: distance(a, j))[:k]", ""),  # the distance takes the time
    ("near = sorted(names)[:k]", ""),
    ("self.keys = sorted(self.names)", ""),  # kept
    ("keys = sorted(self.names[i])", ""),
    ("known = set(self.items[i])", ""),
    ("self.log.debug = i", ""),
    ("x = log.info(i)", ""),  # no look found it there
    ("x = np.load(self.paths[i])['x']", "numpy.NpzFile.__getitem__"),
    ("item = self.buffer.pop()", ""),
    ("y = self.spline(x)", "scipy._Interpolator1D.__call__"),
    ("y = interp1d(self.axis, signal.detrend(x))(AXIS)", "scipy.detrend"),
    ("x = cv2.resize(x, (32, 32))", ""),
    ("x = F.resize(x, 32)", "torchvision.resize"),
    ("lam = self.beta.sample()", "torch.Beta.sample"),
    ("font = ImageFont.truetype(self.fonts[i], 20)", "PIL.truetype"),
    ("x = np.load(self.paths[i])[0]", "numpy.load"),
    ("x = opened['x'][i]", "numpy.NpzFile.__getitem__"),  # one of this sample
    ("volume = nib.load(path).get_fdata()", "nibabel.DataobjImage.get_fdata"),
    ("volume = nib.load(path).get_fdata()[None]", "nibabel.DataobjImage.get_fdata"),
    ("rows = pd.read_csv(self.paths[i], skiprows=first, nrows=10)", "pandas.read_csv"),
    ("name = os.path.join(self.root, self.names[i])", "posixpath.join"),
    ("image = cv2.imread(sorted(glob.glob(folder))[0])", ""),
    ("at = text.index('x')", ""),
    ("total = sum(values, 0.0)", ""),
    ("total = sum(map(len, parts), [])", ""),  # another call
    ("where = np.where(mask == 3)", ""),  # of this sample
    ("where = np.where(self.labels == self.label_of(i))[0]", ""),  # another call
    ("out = [t(x) for j, t in enumerate(self.transforms) if j]", ""),
    ("x = torch.cat([x, pad])", ""),
    ("wave, rate = librosa.load(path, sr=None)", "librosa.load"),
    ("wave = frame.resample('1min').mean()", "pandas.resample"),
    ("x = self.model.transform(x)", "mylib.transform"),
    ("mel = self.mel(wave)", "torch.Module._wrapped_call_impl"),  # a transform
    ("image = transforms.ToTensor()(image)", "torchvision.ToTensor.__call__"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "calls", "title"), KNOWN)
def test_a_line_is_known_by_its_text_and_its_call(text: str, calls: str, title: str) -> None:
    assert _title(text, calls) == title
    assert _title("return made(i)", calls) is None or title.startswith("texts tokenized")


@pytest.mark.parametrize(("text", "calls"), SILENT)
def test_nothing_is_said_of_a_line_that_may_be_right(text: str, calls: str) -> None:
    assert _title(text, calls) is None


@pytest.mark.parametrize("one", [MODEL, NESTED, FILLED, AGAIN, AGAIN_MADE, *TABLE], ids=lambda one: one.title)
def test_what_is_written_instead_fits_a_page(one: Known) -> None:
    assert one.title and one.how and all(len(line) <= 92 for line in (*one.how, *one.alone))
    assert all(lines[-1].endswith(".") for lines in (one.how, one.alone) if lines)


@pytest.mark.parametrize(
    "one", [one for one in (NESTED, *TABLE) if one.alone or one.anywhere], ids=lambda one: one.title
)
def test_in_a_loop_that_makes_its_batches_nothing_is_said_of_datasets_and_workers(one: Known) -> None:
    said = " ".join(one.alone or one.how)
    assert not any(word in said for word in ("dataset", "worker", "a sample", "each sample"))


ONCE = [one[:2] for one in KNOWN if one[2] in (
    "the file read once", "the file opened once in each worker", "the transform built once", "folders listed once",
    "the model or tokenizer built once", "files that need no parsing",
    "a line by its place in the file", "a dict in place of list.index",
    "rows found without comparing a column", "places of each label collected once",
    "weights summed once", "the font loaded once",
)]  # fmt: skip


@pytest.mark.parametrize(("text", "calls"), ONCE)
def test_what_is_done_once_is_no_fault(text: str, calls: str) -> None:
    assert _title(text, calls) is not None
    assert _title(text, calls, iterable=True) is None  # once in a pass
    assert _title(text, calls, above="if self.kept is None:") is None
    assert _title(text, calls, above="if not hasattr(self, 'kept'):") is None
    assert _title(text, calls, above="@functools.lru_cache(4)") is None


@pytest.mark.parametrize("function", ["encode", "encode.__call__"])
def test_what_transforms_the_items_of_a_stream_does_it_for_each(function: str) -> None:
    def title(**more: Any) -> str | None:
        row = {"function": function, "stage": "encode", "kind": "transform", "iterable": True, **more}
        return _title("table = json.load(open('/data/words.json'))", "json.load", **row)

    assert title() == title(stage="encode (1 of 2)") == "the file read once"
    assert title(kind="getitem") is None
    assert title(stage="other") is None  # called once, maybe
    assert title(below=["        for one in source:", "            yield one"]) is None


def test_an_attribute_of_a_transform_is_the_same_for_each_sample() -> None:
    text, calls = "table = json.load(open(self.path))", "json.load"
    assert _title(text, calls, function="Words.__call__", stage="Words (1 of 2)") == "the file read once"
    assert _title(text, calls, function="Words.__call__", stage="Other") is None


def test_of_another_object_than_the_dataset_an_attribute_may_differ_for_each_sample() -> None:
    text, calls = "return json.load(open(self.path))", "json.load"
    assert _title(text, calls, function="Clips.boxes") == "the file read once"
    assert _title(text, calls, function="Record.boxes") is None
    assert _title(text, calls, function="Clips.boxes", stage="json.load", dataset="Clips") == "the file read once"
    assert _title(text, calls, function="Clips.boxes", stage="json.load", dataset="Subset") is None
    assert _title(text, calls, above="self.path = self.paths[i]") is None


def test_names_of_the_function_stand_for_what_they_are() -> None:
    assert _title("boxes = json.load(f)", "json.load", WITH) == "the file read once"
    assert _title("boxes = json.load(f)", "json.load", "with open(self.paths[i]) as f:") == "texts parsed once"
    assert _title("boxes = pickle.load(f)", "", "with open(self.paths[i]) as f:") is None
    assert _title("mine = df[df['user'] == user]", FRAME, "df = self.visits") == "rows found without comparing a column"
    assert _title("mine = df[df['user'] == user]", FRAME, "df = self.visits\ndf = df.dropna()") is None


def test_parts_are_joined_once_only_if_it_is_in_a_loop() -> None:
    line, loop = "out = np.concatenate([out, part])", "for part in parts:"
    assert _title(line, "", loop, indent=12) == "parts joined once"
    assert _title(line, "", loop, indent=8) is None
    assert _title("self.rows = pd.concat([self.rows, part])", "pandas.concat", loop, indent=12) == "parts joined once"
    assert _title("out = np.concatenate([part, pad])", "", loop, indent=12) is None


def test_a_seek_to_the_begin_of_a_clip_is_needed() -> None:
    line, title = "video.set(cv2.CAP_PROP_POS_FRAMES, number)", "frames read on, without seeking"
    reads = ["        for _ in range(16):", "            ok, frame = video.read()"]
    assert _title(line, below=reads) is None
    assert _title(line, "", "for number in numbers:", indent=12, below=reads) == title
    assert _title(line, below=["        ok, frame = video.read()"]) == title  # of a helper


def test_a_loop_over_each_element_is_known_by_its_two_loops() -> None:
    loops, line = "for y in range(h):\n    for x in range(w):", "out[y, x] = table[mask[y, x]]"
    assert _title(line, "", loops, indent=16) == "operations on whole arrays"
    assert _title(line, "", loops, indent=8) is None
    assert _title("out[y, x] = cv2.norm(a, b)", "", loops, indent=16) is None
    assert _title("out[y, k] = 1", "", loops, indent=16) is None


def test_elements_that_are_only_copied_are_set_by_rows() -> None:
    loops = "for row, (ids, _) in enumerate(batch):\n    for col in range(len(ids)):"
    whole, array = "whole rows, not single elements", "operations on whole arrays"
    assert _title("tokens[row, col] = ids[col]", "", loops, indent=16) == whole
    assert _title("mask[row, col] = 1.0", "", loops, indent=16) == whole
    assert _title("tokens[row][col] = ids[col]", "", loops, indent=16) == whole
    assert _title("tokens[row, col] = table[ids[col]]", "", loops, indent=16) == array
    assert _title("tokens[row, 0] = ids[col]", "", loops, indent=16) is None
    assert _title("tokens[row, col] = ids[col]", "", "for row, ids in pairs:\n    for col in ids:", indent=16) is None


def test_the_query_stands_above_what_it_fetches() -> None:
    query = "cursor.execute(\n    'SELECT a FROM t WHERE user = ?', (user,)\n)"
    assert _title("rows = cursor.fetchall()", "", query) == "an index on the columns of WHERE"
    assert _title(").fetchall()", "", query.removesuffix("\n)")) == "an index on the columns of WHERE"
    assert _title("rows = cursor.fetchall()", "", "cursor.execute('SELECT a FROM t')") is None
    assert _title("rows = cursor.fetchall()", "", f"{query}\ncursor.execute('SELECT a FROM t')") is None


@pytest.mark.parametrize(
    ("text", "calls", "title"), [one for one in KNOWN if one[2].startswith(("an index", "chunks"))]
)
def test_a_query_or_a_read_that_is_quick_has_its_index_and_its_chunks(text: str, calls: str, title: str) -> None:
    assert _title(text, calls, took_s=0.01) == title
    assert _title(text, calls, took_s=0.0001) is None


HELD = ("Block", "Conv2d", "Encoder", "encoder")


@pytest.mark.parametrize(
    ("text", "calls", "function"),
    [
        ("z = self.encoder(x[None])[0]", "torch.Module._wrapped_call_impl", "Clips.__getitem__"),
        ("z = self.encoder.embed(x)", "library.Encoder.embed", "Clips.__getitem__"),
        ("x = self.conv(x)", "torch.Module._wrapped_call_impl", "Block.forward"),
        ("return x.mean((2, 3))", "", "Encoder.forward"),
    ],
)
def test_a_neural_network_for_one_sample_is_known(text: str, calls: str, function: str) -> None:
    def title(**more: Any) -> str | None:
        return _title(text, calls, **{"function": function, "models": HELD, **more})

    assert title() == "the model for whole batches"
    assert title(models=()) is None
    assert title(kind="collate", stage="embedding_collate") is None  # it is a whole batch
    assert title(stage="Clips.__getitems__") is None


def test_what_is_no_call_of_the_network_is_not_its_time() -> None:
    assert _title("self.encoder.eval()", "torch.Module.eval", models=HELD) is None
    assert _title("mel = self.mel(wave)", "torch.Module._wrapped_call_impl", models=HELD) is None
    assert _title("x = self.resize(x)", "", function="Photos.resize", models=HELD) is None
    assert _title("z = self.pipe(text)", "sentence_transformers.SentenceTransformer.encode") is not None


def test_a_statement_goes_on_until_its_brackets_are_closed() -> None:
    assert statement(["    x = json.load(\n", "        open(self.path)\n", "    )[i]\n", "    y = 1\n"]) == (
        "x = json.load( open(self.path) )[i]"
    )
    assert statement(["x = 1\n", "y = (\n"]) == "x = 1"
    assert statement(["x = (\n", *["1,\n"] * 9]) == "x = ("


def test_lists_that_samples_hold_are_known_in_a_collate_function() -> None:
    text = "return {'x': torch.tensor([e['x'] for e in batch]), 'y': torch.tensor([e['y'] for e in batch])}"
    of_batch: dict[str, Any] = {"kind": "collate", "stage": "collate", "function": "collate"}
    assert _title(text, **of_batch) == "arrays or tensors in samples, and stacked"
    assert _title("x = torch.tensor([one.x for one in batch])", **of_batch) is not None
    assert _title("x = torch.tensor([transform(one) for one in batch])", **of_batch) is None  # that may be what is slow
    assert _title("x = torch.stack([e['x'] for e in batch])", **of_batch) is None


@pytest.mark.parametrize(
    ("text", "calls", "title"),
    [
        ("student = copy.deepcopy(model.state_dict())", "copy.deepcopy", "an average of weights changed in place"),
        (
            "teacher[name] = value * self.decay + new[name] * (1.0 - self.decay)",
            "",
            "an average of weights changed in place",
        ),
        ("self.hist[t, p] += 1", "", "pairs counted at once"),
        ("for t, p in zip(target.flatten().tolist(), pred.flatten().tolist()):", "", "pairs counted at once"),
        ("logits = scale * features @ weight", "", None),
        ("self.total += 1", "", None),
        ("self.model.load_state_dict(teacher)", "torch.load_state_dict", None),
    ],
)
def test_lines_of_a_training_loop(text: str, calls: str, title: str | None) -> None:
    above = ["    def update(self, target, pred):", "        for t, p in zip(target.tolist(), pred.tolist()):"]
    row = Line(text, calls, "EMA.update", "", "loop", indent=12, above=above)
    found = known(row)
    assert (found and found.title) == title
    other = known(row._replace(kind="getitem"))
    assert other is None or other.title != title  # in a dataset, they are not told
