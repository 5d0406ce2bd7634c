"""fastai's Learner on images in folders, as in https://docs.fast.ai/tutorial.vision.html."""

import sys

from fastai.vision.all import *  # noqa: F403

if __name__ == "__main__":
    set_seed(7)
    path = Path(sys.argv[1]) / "images"
    dls = ImageDataLoaders.from_folder(
        path, train="train", valid="val", bs=8, num_workers=2, device="cpu",
        item_tfms=RandomResizedCrop(96, min_scale=0.35), batch_tfms=Normalize.from_stats(*imagenet_stats),
    )  # fmt: skip
    model = nn.Sequential(
        ConvLayer(3, 16, stride=2), ConvLayer(16, 32, stride=2), nn.AdaptiveAvgPool2d(1), Flatten(), nn.Linear(32, 4)
    )
    learn = Learner(dls, model, loss_func=CrossEntropyLossFlat(), metrics=accuracy)
    with learn.no_bar(), learn.no_logging():
        learn.fit(2, 1e-3)
    print(learn.recorder.values)
