"""Published training rates: the yardstick of `run` if the user names no consumer.

Each figure was read in its source, which `link` names at a fixed commit. `date` is that of the commit that brought the
figure, or of the run that it is from. Each is of the whole machine that `device` names. A new row needs all of this.
"""

from __future__ import annotations

from pipebench.results.consumers import Consumer

_TIMM = (
    "https://github.com/huggingface/pytorch-image-models/blob/c865028c34fc05cc7deea8e753b30d8cd1952591/"
    "results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv"
)
_NVIDIA = (
    "https://github.com/NVIDIA/DeepLearningExamples/blob/7bdfc81d258746323bf0d3ca57e0ad302a4c3a74/"
    "PyTorch/Classification/ConvNets/resnet50v1.5/README.md"
)
_MLPERF = (
    "https://github.com/mlcommons/training_results_v3.0/blob/9f08e30cbe2fed7cd12bea174729b3904124c7bc/"
    "NVIDIA/results/dgxh100_ngc23.04_mxnet/resnet/result_0.txt"
)


def _by_timm(name: str, images_per_s: float) -> Consumer:
    return Consumer(
        name,
        images_per_s,
        device="1 RTX 3090",
        precision="AMP",
        data="random 224×224, on the device",
        source="timm, results/benchmark-train-amp-nhwc",
        link=_TIMM,
        date="2022-07-27",
    )


def _by_nvidia(device: str, images_per_s: float) -> Consumer:
    return Consumer(
        "ResNet-50 v1.5",
        images_per_s,
        device=device,
        precision="AMP",
        data="ImageNet, by DALI",
        source="NVIDIA DeepLearningExamples, ResNet50 v1.5",
        link=_NVIDIA,
        date="2021-04-20",
    )


PUBLISHED = (
    _by_timm("ViT-B/16", 392.99),
    _by_timm("ResNet-50", 1218.01),
    _by_nvidia("1 A100 80GB", 2470.0),
    _by_timm("ResNet-18", 3481.78),
    _by_nvidia("8 A100 80GB", 16621.0),
    Consumer(
        "ResNet-50 v1.5",
        56078.48,  # `tracked_stats` of the last epoch
        device="8 H100 SXM",
        precision="mixed",
        data="ImageNet, by DALI",
        source="MLPerf Training 3.0, NVIDIA, closed division",
        link=_MLPERF,
        date="2023-05-06",
    ),
)
