"""The planted scripts whose whole runs are timed: the cause of each, and the text that its best change replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from advice_planted import Planted


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
        remedy="kept cache together",
        code="stage cores-used-up",
        by_hand="kept",
        by_author={
            "cache": (
                (
                    "        self.items = sorted(manifest.items())\n",
                    "        self.items = sorted(manifest.items())\n        self.kept = {name: read_member(archive, name) for name, _ in self.items}\n",
                ),
                ("read_member(self.archive, name)", "self.kept[name]"),
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
