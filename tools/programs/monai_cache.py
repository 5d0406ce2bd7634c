"""MONAI: cached volumes with random crops and turns, as in the tutorial of spleen segmentation.

https://github.com/Project-MONAI/tutorials/blob/main/3d_segmentation/spleen_segmentation_3d.ipynb
"""

import sys
from pathlib import Path

import torch
from loops import longer
from monai import transforms
from monai.data import CacheDataset, DataLoader, ThreadDataLoader
from monai.losses import DiceLoss
from monai.networks.nets import UNet
from monai.utils import set_determinism

KEYS = ("image", "label")

if __name__ == "__main__":
    set_determinism(7)
    folder = Path(sys.argv[1]) / "volumes"
    files = [
        {"image": str(one), "label": str(one).replace("image", "label")} for one in sorted(folder.glob("*-image.npy"))
    ]
    steps = transforms.Compose(
        [
            transforms.LoadImaged(KEYS, reader="NumpyReader"),
            transforms.EnsureChannelFirstd(KEYS, channel_dim="no_channel"),
            transforms.ScaleIntensityRanged("image", a_min=-60, a_max=260, b_min=0.0, b_max=1.0, clip=True),
            transforms.CropForegroundd(KEYS, source_key="image"),
            transforms.RandCropByPosNegLabeld(
                KEYS, label_key="label", spatial_size=(32, 32, 32), pos=1, neg=1, num_samples=2, image_key="image"
            ),
            transforms.RandAffined(
                KEYS, mode=("bilinear", "nearest"), prob=1.0, rotate_range=(0, 0, 0.2), scale_range=(0.1, 0.1, 0.1)
            ),
        ]
    )
    dataset = CacheDataset(files, steps, cache_rate=1.0, num_workers=0, progress=False)
    if "thread" in sys.argv:  # as in the tutorial of fast training
        loader = ThreadDataLoader(dataset, batch_size=2, shuffle=True, num_workers=0)
    else:
        loader = DataLoader(dataset, batch_size=2, shuffle=True, num_workers=2)
    model = UNet(3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2))
    loss_of = DiceLoss(to_onehot_y=True, softmax=True)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(longer(6)):
        for batch in loader:
            optimiser.zero_grad()
            loss = loss_of(model(batch["image"]), batch["label"])
            loss.backward()
            optimiser.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
