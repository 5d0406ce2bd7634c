"""The planted scripts of `tools/advice.py`: the cause of each, and what makes it faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_FOR_EVER = "1000000000"
Replaced = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Planted:
    """A script of `tests/advice/scripts` with a known cause.

    `present` are its arguments in a plain run, `best` those with the best change that is known, and `tried` those
    while `advise` works on it: longer. `variables` are set for the best run, too. `remedies` are the remedies that can
    be right (empty: no setting of the loader helps). `codes` are the right first diagnoses of its account; "nothing"
    says that no cause but training is right. `by_hand` is a remedy that the script has as an argument, that of the best
    run: it replaces no line of the script.

    Scripts of the fourth to seventh sets have no arguments for their causes and print no seconds: whole runs are timed.
    `replaced` is what the best change replaces in the text, each once. `by_author` has the same for remedies that
    `advise` can try and cannot write. `discards` allows to spoil the weights; `epochs` is how long `advise` has.
    """

    name: str
    cause: str
    present: tuple[str, ...]
    best: tuple[str, ...]
    tried: tuple[str, ...]
    remedies: tuple[str, ...] = ()
    codes: tuple[str, ...] = ("nothing",)
    variables: dict[str, str] = field(default_factory=dict)
    any_order: bool = False
    by_hand: str = ""
    folder: str = "scripts"
    replaced: Replaced = ()
    by_author: dict[str, Replaced] = field(default_factory=dict)
    discards: bool = False
    epochs: str = ""

    @property
    def whole(self) -> bool:
        """Whether the seconds of a whole run count."""
        return bool(self.epochs)

    @property
    def advised(self) -> tuple[str, ...]:
        """The arguments with the advised change: those of the present run, for as long as the best one."""
        return self.present if self.folder != "scripts" else (self.present[0], self.best[1], *self.present[2:])


def _planted(name: str, cause: str, present: str, best: str, tried: str, *, remedy: str = "", code: str = "nothing",
             variables: str = "", any_order: bool = False, by_hand: str = "",
             folder: str = "scripts", discards: bool = False) -> Planted:  # fmt: skip
    more = dict(one.split("=") for one in variables.split())
    words = tuple(tried.replace("*", _FOR_EVER).split())
    return Planted(
        name, cause, tuple(present.split()), tuple(best.split()), words, tuple(remedy.split()), tuple(code.split()),
        more, any_order, by_hand, folder, discards=discards,
    )  # fmt: skip


PLANTED = (
    _planted("sleeping", "samples wait for a network, cores are idle", "2 150", "16 1500", "2 *",
             remedy="num_workers together", code="workers-blocked"),
    _planted("storage", "samples are read from storage", "2 400", "8 1000", "2 *",
             remedy="num_workers together", code="storage"),
    _planted("no_workers", "no workers", "0 60", "2 200", "0 *", remedy="num_workers together", code="no-workers"),
    _planted("threads", "libraries use all cores in each worker", "2 100", "2 800", "2 *",
             remedy="one_thread together", code="threads-over-cores", variables="OPENBLAS_NUM_THREADS=1"),
    _planted("startup", "workers start slowly for short passes", "2 8 0", "2 15 1", "2 1000 0",
             remedy="persistent_workers together", code="start-up"),
    _planted("bursty", "every 8th batch is slow, few are made ahead", "2 120 2", "2 160 16", "2 * 2",
             remedy="prefetch_factor num_workers together", code="periodic-stalls"),
    _planted("headofline", "a slow sample holds up finished batches", "4 200 1", "4 200 0", "4 * 1",
             remedy="in_order prefetch_factor num_workers together", code="head-of-line", any_order=True),
    _planted("competing", "many busy workers take cores from the model", "6 300", "1 600", "6 *",
             code="workers-compete"),  # they compute while they wait, too, so fewer can only be predicted
    _planted("busy", "a stage computes, all cores are used", "2 150", "2 200 40 20000", "2 *",
             code="stage cores-used-up"),
    _planted("numpy_batches", "12 MB of NumPy arrays are handed over", "0 100", "1 150", "0 *",
             remedy="as_tensors together", code="hand-off pickling", by_hand="as_tensors"),
    _planted("sampling", "the sampler is slow", "10 120", "0 160", "10 *", code="sampler"),
    _planted("callbacks", "the loop sends metrics each time", "1 120", "50 200", "1 *", code="callbacks"),
    _planted("validating", "validation without workers after each pass", "0 4", "4 6", "0 1000", code="validation"),
    _planted("growing", "memory of workers grows", "60 80", "0 80", "60 *", code="memory-growth"),
    _planted("computing", "the model takes most of the time", "2 80", "2 80", "2 *"),
    _planted("healthy", "batches are ready in time", "1 300", "1 300", "1 *"),
    _planted("short_passes", "slow start for short passes, and samples wait", "2 4 0", "8 8 1", "2 1000 0",
             remedy="together", code="start-up workers-blocked"),
    _planted("callbacks_waits", "the loop sends metrics, and samples wait", "2 80", "8 600", "2 *",
             remedy="num_workers together", code="workers-blocked callbacks"),
)  # fmt: skip


def _of(folder: str) -> Callable[..., Planted]:
    """For a folder of `tests/advice` by another author: the defaults are the slow settings; runs have one length."""

    def planted(name: str, cause: str, best: str = "", tried: str = "--epochs 1000000", present: str = "",
                **more: Any) -> Planted:  # fmt: skip
        return _planted(name, cause, present, best, tried, folder=folder, **more)

    return planted


# What is right is what the author of the scripts wrote (README.md of the folder).
_independent, _second, _third = map(_of, ("independent", "second", "third"))
INDEPENDENT = (
    _independent("one", "samples wait for a network, one worker", "--num-workers 8 --epochs 10", present="--epochs 10",
                 remedy="num_workers together", code="workers-blocked", discards=True),
    _independent("two", "workers open an archive anew in each pass", "--epochs 20 --persistent", present="--epochs 20",
                 remedy="persistent_workers together", code="start-up"),
    _independent("three", "a slow sample holds up the order", "--any-order",
                 remedy="in_order prefetch_factor together", code="head-of-line", any_order=True, by_hand="in_order"),
    _independent("four", "a shard of many batches takes long to open", "--prefetch-factor 32",
                 "--steps 1000000000", remedy="prefetch_factor together", code="periodic-stalls", discards=True),
    _independent("five", "38 MB of NumPy arrays are handed over", "--fixed",
                 remedy="as_tensors together", code="hand-off pickling", by_hand="as_tensors"),
    _independent("six", "a checkpoint every 5 steps, and no workers", "--save-every 500",
                 code="callbacks"),
    _independent("seven", "the model takes the time", tried="steps=1000000000"),
    _independent("eight", "the batch sampler draws slowly", "--fixed", code="sampler"),
)  # fmt: skip
SECOND = (
    _second("one", "no workers, and reads from a file share", "--workers 4",
            remedy="num_workers together", code="no-workers"),
    _second("two", "workers open an archive anew in each pass", "--persistent",
            remedy="persistent_workers together", code="start-up"),
    _second("three", "the first window of a shard waits for it", "prefetch=12", "epochs=1000000",
            remedy="prefetch_factor num_workers together", code="periodic-stalls head-of-line"),
    _second("four", "a checkpoint every 4 steps on a slow drive", "--fixed", code="callbacks"),
    _second("five", "the sampler draws one index after the other", "--fixed", code="sampler"),
    _second("six", "validation every 10 steps, whose workers start anew", "--validate-every 30 --keep-validation",
            code="validation start-up"),
    _second("seven", "a transform builds its filters for each sample", "--fixed", code="stage"),
    _second("eight", "the model takes the time"),
)  # fmt: skip
THIRD = (
    _third("one", "12 workers seek on one disc", "-j 3",
           remedy="num_workers together", code="workers-blocked storage"),
    _third("two", "each worker fetches recordings when it starts", "--keep-procs",
           remedy="persistent_workers together", code="start-up"),
    _third("three", "the storage stops for 0.9 s of each 1.9 s", "--prefetch_factor 8",
           remedy="prefetch_factor num_workers together", code="periodic-stalls head-of-line workers-blocked"),
    _third("four", "all workers share one lock around the read", "--handle-per-process", code="workers-blocked stage"),
    _third("five", "one query a row, and no workers", "bulk_query=1 workers=2", "epochs=1000000",
           remedy="num_workers together", code="no-workers"),
    _third("six", "reports in each step, and validation without workers", "--report-every 20 --val-workers 3",
           code="callbacks validation"),
    _third("seven", "batches are ready in time"),
    _third("eight", "a whole scan is preprocessed for each patch", "--cut-first", code="stage"),
)  # fmt: skip


def _whole(folder: str) -> Callable[..., Planted]:
    """For a folder of scripts whose whole runs are timed."""

    def planted(name: str, cause: str, *replaced: tuple[str, str], code: str = "nothing", **more: Any) -> Planted:
        remedies = tuple(more.pop("remedy", "").split())
        how = {"present": (), "best": (), "tried": (), "remedies": remedies, "codes": tuple(code.split()), **more}
        return Planted(name, cause, folder=folder, replaced=replaced, discards=True, epochs="400", **how)

    return planted


_fourth, _fifth, _sixth, _seventh = map(_whole, ("fourth", "fifth", "sixth", "seventh"))
FOURTH = (
    _fourth("terrain_tiles", "samples wait for an object store", best=("--workers", "8"),
            remedy="num_workers together", code="workers-blocked"),
    _fourth("stereo_stream", "two streams stop every 24 batches",
            ("num_workers=2, persistent", "num_workers=2, prefetch_factor=16, persistent"),
            remedy="prefetch_factor together", code="periodic-stalls head-of-line workers-blocked"),
    _fourth("clinic_slides", "a slow sample holds up the order",
            ("persistent_workers=True\n", "persistent_workers=True, in_order=False\n"),
            remedy="in_order prefetch_factor together", code="head-of-line", any_order=True),
    _fourth("ecg_folds", "new workers open a connection in each pass",
            ("**vars(cfg.loader))", "persistent_workers=True, **vars(cfg.loader))"),
            remedy="persistent_workers together", code="start-up"),
    _fourth("ledger_callbacks", "a post after each step, and frequent validation",
            ("        time.sleep(0.035)", '        time.sleep(0.035 * (payload["step"] % 50 == 0))'),
            code="callbacks validation"),
    _fourth("galaxy_zoo", "the model takes the time"),
    _fourth("photo_finetune", "pictures are decoded in full for small crops",
            ("img = Image.open(f)\n", 'img = Image.open(f)\n        img.draft("RGB", (320, 240))\n'), code="stage",
            by_author={"cache": (
                ("files * repeat\n", "files * repeat\n        self.kept = {f: self.load(f) for f in files}\n"),
                ("self.load(self.files[i])", "self.kept[self.files[i]]"),
            )}),
    _fourth("birdsong", "recordings are cleaned anew in each pass",
            ("        self.n = n\n", "        self.n = n\n        self.kept = [self.clean(k) for k in range(n)]\n"),
            ("spec = self.clean(k)", "spec = self.kept[k]"), remedy="cache together", code="stage", by_hand="cache"),
    _fourth("longtail", "the batch sampler draws from two million weights for each batch",
            ("        for _ in range(self.steps):\n            p = self.weights / self.weights.sum()\n"
             "            yield self.rng.choice(len(p), self.batch, replace=False, p=p).tolist()\n",
             "        p = self.weights / self.weights.sum()\n"
             "        drawn = self.rng.choice(len(p), self.batch * self.steps, replace=False, p=p)\n"
             "        yield from drawn.reshape(self.steps, self.batch).tolist()\n"), code="sampler"),
)  # fmt: skip

FIFTH = (
    _fifth(
        "leaf_disease",
        "photographs are decoded in full for small crops",
        (
            'photo = Image.open(path).convert("RGB")\n',
            'photo = Image.open(path)\n        photo.draft("RGB", (photo.width // 4, photo.height // 4))\n        photo = photo.convert("RGB")\n',
        ),
        remedy="draft from_bytes packed_crops together",
        code="stage cores-used-up",
        by_hand="draft",
    ),
    _fifth(
        "click_through",
        "the batch sampler draws from two million weights for each batch",
        (
            "        for _ in range(self.steps):\n            yield self.rng.choice(len(self.p), size=self.batch_size, p=self.p).tolist()\n",
            "        rows = self.rng.choice(len(self.p), size=(self.steps, self.batch_size), p=self.p)\n        yield from rows.tolist()\n",
        ),
        code="sampler",
    ),
    _fifth(
        "cell_detection",
        "outlines cross the pipe as nested lists",
        ("outlines.tolist()", "torch.as_tensor(outlines, dtype=torch.float32)"),
        remedy="as_tensors together",
        code="hand-off pickling",
        by_hand="as_tensors",
    ),
    _fifth(
        "land_cover",
        "one worker of four has most of the tiles",
        (
            "        per_worker = math.ceil(len(self.shards) / info.num_workers)\n        first = info.id * per_worker\n        return self.shards[first : first + per_worker]\n",
            "        loads = [0] * info.num_workers\n        mine = []\n        for region, count in sorted(self.shards, key=lambda s: -s[1]):\n            w = loads.index(min(loads))\n            loads[w] += count\n            if w == info.id:\n                mine.append((region, count))\n        return mine\n",
        ),
        code="uneven-workers",
        any_order=True,
    ),
    _fifth("retail_shelf", "the model takes the time"),
    _fifth(
        "card_fraud",
        "all scores so far are sorted in each step",
        (
            '                q = quality.compute()\n                log.writerow([epoch, step, f"{loss.item():.5f}", q["auc"], q["f1"]])\n',
            '                last = step == len(loader) - 1\n                q = quality.compute() if last else {"auc": "", "f1": ""}\n                log.writerow([epoch, step, f"{loss.item():.5f}", q["auc"], q["f1"]])\n',
        ),
        code="callbacks",
    ),
    _fifth(
        "keyword_spotting",
        "new workers build a bank of noise in each pass, and filters for each sample",
        ("        self.noise = None\n\n", "        self.noise = None\n        self.mel = mel_filters()\n\n"),
        ("mel_filters() @ power", "self.mel @ power"),
        (
            "shuffle=True, num_workers=a.num_workers)",
            "shuffle=True, num_workers=a.num_workers, persistent_workers=a.num_workers > 0)",
        ),
        remedy="persistent_workers together",
        code="start-up",
        by_hand="together",
    ),
    _fifth(
        "chest_xray",
        "workers share a lock around read and decode",
        (
            "        with self.lock:  # seek + read belong together\n            image = self.pack.load(i)\n",
            "        image = self.pack.load(i)\n",
        ),
        code="workers-blocked",
    ),
)

SIXTH = (
    _sixth(
        "leaf_disease",
        "photographs are decoded in full for small crops",
        (
            '            image = img.convert("RGB")',
            '            img.draft("RGB", (400, 300))\n            image = img.convert("RGB")',
        ),
        remedy="draft from_bytes packed_crops together",
        code="stage cores-used-up",
        by_hand="draft",
    ),
    _sixth(
        "bird_calls",
        "spectrograms are made anew in each pass, without workers",
        (
            '        self.files = sorted(root.glob("*.wav"))\n',
            '        self.files = sorted(root.glob("*.wav"))\n        self.cache = {}\n',
        ),
        (
            "        spec = self.spectrogram(path)\n",
            "        if index not in self.cache:\n            self.cache[index] = self.spectrogram(path)\n        spec = self.cache[index]\n",
        ),
        remedy="cache together",
        code="stage",
        by_hand="cache",
    ),
    _sixth(
        "street_boxes",
        "144 small tensors of a batch cross from the workers",
        (
            "num_workers=2,\n            collate_fn=collate,\n            persistent_workers=True,\n",
            "num_workers=0,\n            collate_fn=collate,\n",
        ),
        remedy="num_workers as_tensors together",
        code="hand-off pickling",
    ),
    _sixth(
        "news_topics",
        "new workers build a tokenizer in each pass",
        ("num_workers=2, collate_fn=collate_fn)", "num_workers=2, collate_fn=collate_fn, persistent_workers=True)"),
        remedy="persistent_workers together",
        code="start-up",
    ),
    _sixth(
        "ad_clicks",
        "all scores of the pass are sorted in each step",
        (
            "            auc = roc_auc(np.concatenate(scores), np.concatenate(labels))\n",
            "        auc = roc_auc(np.concatenate(scores), np.concatenate(labels))\n",
        ),
        code="callbacks",
    ),
    _sixth(
        "crop_shards",
        "samples wait for storage, two workers",
        ('"--workers", type=int, default=2', '"--workers", type=int, default=16'),
        remedy="num_workers together",
        code="workers-blocked storage",
    ),
    _sixth(
        "pen_strokes",
        "the model takes the time",
    ),
    _sixth(
        "seismic_picks",
        "the sampler draws one index after the other, with weights",
        (
            "        for _ in range(self.count):\n            yield int(self.rng.choice(population, p=self.probability))\n",
            "        yield from self.rng.choice(population, size=self.count, p=self.probability).tolist()\n",
        ),
        code="sampler",
    ),
)

SEVENTH = (
    _seventh(
        "ocr_lines",
        "a zip is opened anew, and its directory read, for each sample",
        (
            "def read_member(archive, name):\n    with zipfile.ZipFile(archive) as bundle:\n        return bundle.read(name)\n",
            "OPEN_BUNDLES = {}\n\n\ndef read_member(archive, name):\n    key = os.getpid(), archive      # a handle must not be shared across the fork\n    if key not in OPEN_BUNDLES:\n        OPEN_BUNDLES[key] = zipfile.ZipFile(archive)\n    return OPEN_BUNDLES[key].read(name)\n",
        ),
        remedy="cache together",
        code="stage cores-used-up",
        by_author={
            "cache": (
                (
                    "def read_member(archive, name):\n",
                    "import functools\n\n\n@functools.cache\ndef read_member(archive, name):\n",
                ),
            )
        },
    ),
    _seventh(
        "birdsong",
        "20 s are transformed for each crop of 2 s",
        (
            "        signal = self.augment(signal)\n        features = self.log_mel(signal)\n        frames = EXCERPT * RATE // HOP\n        start = int(torch.randint(features.shape[1] - frames, (1,)))\n        features = features[:, start : start + frames]\n",
            "        samples = EXCERPT * RATE\n        start = int(torch.randint(len(signal) - samples, (1,)))\n        signal = self.augment(signal[start:start + samples])\n        features = self.log_mel(signal)[:, :samples // HOP]\n",
        ),
        code="stage cores-used-up",
    ),
    _seventh(
        "tick_stream",
        "one reader has long and short batches in turn, few are made ahead",
        (
            "num_workers=1,",
            "num_workers=1, prefetch_factor=64,",
        ),
        remedy="prefetch_factor together",
        code="periodic-stalls head-of-line workers-blocked",
    ),
    _seventh(
        "grasp_video",
        "clips are normalised to eight times their bytes before they cross",
        (
            "        clip = (clip / 255.0 - MEAN) / STD\n",
            "",
        ),
        (
            "        clips = clips.float()\n",
            "        mean, std = (torch.tensor(v, dtype=torch.float32).view(3, 1, 1, 1) for v in (MEAN, STD))\n        clips = clips.float().div_(255).sub_(mean).div_(std)\n",
        ),
        code="stage cores-used-up hand-off",
    ),
    _seventh(
        "molecules",
        "480 small tensors of a batch cross from the workers",
        (
            "num_workers=2, persistent_workers=True, collate_fn=as_list",
            "num_workers=0, collate_fn=as_list",
        ),
        remedy="num_workers as_tensors together",
        code="hand-off pickling",
    ),
    _seventh(
        "landcover",
        "worker_init_fn gives each worker a thread for each core",
        (
            "torch.set_num_threads(os.cpu_count())",
            "torch.set_num_threads(1)",
        ),
        remedy="one_thread num_workers together",
        code="threads-over-cores",
        by_hand="one_thread",
    ),
    _seventh(
        "reports_shards",
        "one worker of four has most of the records",
        (
            "def ranged_lines(path):\n",
            "def ranged_lines(path, first, step):\n",
        ),
        (
            "        for line in f:\n",
            "        for line in islice(f, first, None, step):\n",
        ),
        (
            "        for shard in self.shards[worker::workers]:\n            yield from ranged_lines(shard)\n",
            "        for shard in self.shards:\n            yield from ranged_lines(shard, worker, workers)\n",
        ),
        code="uneven-workers",
    ),
    _seventh(
        "traffic",
        "the model takes the time",
    ),
)

SETS = {
    "scripts": PLANTED, "independent": INDEPENDENT, "second": SECOND, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH,
    "sixth": SIXTH, "seventh": SEVENTH,
}  # fmt: skip
"""The scripts by folder of `tests/advice`."""
