"""fine tune-ish classifier for my garden feeder camera pictures"""
import os, time, shutil, tempfile, random
import numpy as np
from PIL import Image
import torch, torch.nn as nn
from torch.utils.data import Dataset, DataLoader
from torchvision import transforms as T

EPOCHS = int(os.environ.get('EPOCHS', 3))
SPECIES = ['blue_tit', 'robin', 'sparrow', 'blackbird', 'finch']
SIZE = 112

def fake_pictures(where, n=176):
    # the camera takes 1600x1200
    rng = np.random.RandomState(5)
    yy, xx = np.mgrid[0:1200, 0:1600]
    encoded = []
    for k in range(5):
        label = k % len(SPECIES)
        small = rng.randint(60, 200, (36, 48, 3)).astype('uint8')
        bg = np.asarray(Image.fromarray(small).resize((1600, 1200), Image.BILINEAR)).astype('int16')
        cx, cy = rng.randint(450, 1150), rng.randint(350, 850)
        bird = ((xx - cx) / 400.) ** 2 + ((yy - cy) / 260.) ** 2 < 1
        bg[bird, label % 3] += 50 + 8 * label
        grain = rng.randint(-9, 10, (1200, 1600, 1))
        im = Image.fromarray(np.clip(bg + grain, 0, 255).astype('uint8'))
        p = os.path.join(where, 'tmp.jpg')
        im.save(p, quality=90)
        encoded.append((open(p, 'rb').read(), label))
        os.remove(p)
    files = []
    for i in range(n):
        data, label = encoded[i % len(encoded)]
        p = os.path.join(where, '%s_%04d.jpg' % (SPECIES[label], i))
        with open(p, 'wb') as f:
            f.write(data)
        files.append((p, label))
    return files

class Feeder(Dataset):
    def __init__(self, files, tf):
        self.files = files
        self.tf = tf

    def __len__(self):
        return len(self.files)

    def __getitem__(self, idx):
        path, label = self.files[idx]
        img = Image.open(path)
        img = img.convert('RGB')
        return self.tf(img), label

train_tf = T.Compose([
    T.Resize(128),
    T.RandomCrop(SIZE),
    T.RandomHorizontalFlip(),
    T.ColorJitter(brightness=.2, contrast=.2),
    T.ToTensor(),
    T.Normalize([.485, .456, .406], [.229, .224, .225]),
])

def conv(i, o, s):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv(3, 16, 2), conv(16, 32, 2), conv(32, 64, 2), conv(64, 96, 2))
        self.out = nn.Linear(96, len(SPECIES))

    def forward(self, x):
        return self.out(self.features(x).mean([2, 3]))

def main():
    random.seed(5); np.random.seed(5); torch.manual_seed(5)
    torch.set_num_threads(1)
    where = tempfile.mkdtemp()
    files = fake_pictures(where)
    dl = DataLoader(Feeder(files, train_tf), batch_size=4, shuffle=True, num_workers=2,
                    persistent_workers=True, prefetch_factor=4)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    crit = nn.CrossEntropyLoss()
    try:
        for ep in range(EPOCHS):
            t = time.time()
            hits = 0
            for x, y in dl:
                opt.zero_grad()
                o = net(x)
                l = crit(o, y)
                l.backward()
                opt.step()
                hits += int((o.argmax(1) == y).sum())
            print('ep', ep, 'acc %.2f' % (hits / len(files)), 'last loss %.3f' % l.item(),
                  '%.1fs' % (time.time() - t), flush=True)
    finally:
        del dl
        shutil.rmtree(where, ignore_errors=True)

if __name__ == "__main__":
    main()
