"""Handwritten-glyph recogniser (synthetic strokes) with a small Trainer class."""
import math
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def synth_glyphs(n, classes, seed):
    """Each class is a Lissajous figure; samples jitter phase, scale and noise."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=g)
    t = torch.linspace(0, 2 * math.pi, 160)
    a = (1 + labels % 4).float()[:, None]
    b = (1 + labels // 4).float()[:, None]
    phase = 0.4 * torch.rand(n, 1, generator=g)
    scale = 9 + 4 * torch.rand(n, 1, generator=g)
    x = (16 + scale * torch.sin(a * t + phase)).long().clamp(0, 31)
    y = (16 + scale * torch.sin(b * t + 1.0)).long().clamp(0, 31)
    images = 0.15 * torch.randn(n, 32 * 32, generator=g)
    images.scatter_(1, y * 32 + x, 1.0)
    return TensorDataset(images.view(n, 1, 32, 32), labels)


class GlyphNet(nn.Module):
    def __init__(self, classes, width=32):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.classifier = nn.Linear(8 * width, classes)

    def forward(self, x):
        return self.classifier(self.features(x))


class Trainer:
    def __init__(self, model, train_loader, val_loader, lr=1e-3, eval_every=6, patience=400):
        self.model = model
        self.train_loader, self.val_loader = train_loader, val_loader
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()
        self.eval_every = eval_every
        self.patience = patience
        self.step = 0
        self.best, self.best_step, self.best_state = float("inf"), 0, None

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        loss, correct, count = 0.0, 0, 0
        for x, y in self.val_loader:
            logits = self.model(x)
            loss += self.criterion(logits, y).item() * len(y)
            correct += (logits.argmax(1) == y).sum().item()
            count += len(y)
        self.model.train()
        return loss / count, correct / count

    def train_step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            start, losses = time.time(), []
            for x, y in self.train_loader:
                losses.append(self.train_step(x, y))
                if self.step % self.eval_every == 0:
                    val_loss, val_acc = self.evaluate()
                    if val_loss < self.best:
                        self.best, self.best_step = val_loss, self.step
                        self.best_state = {k: v.clone() for k, v in self.model.state_dict().items()}
            print(f"epoch {epoch}: train {sum(losses) / len(losses):.4f} val {val_loss:.4f} "
                  f"acc {val_acc:.3f} best@{self.best_step} {time.time() - start:.1f}s", flush=True)
            if self.step - self.best_step > self.patience:
                print("no improvement, stopping")
                break
        self.model.load_state_dict(self.best_state)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    classes = 12
    train_loader = DataLoader(synth_glyphs(1920, classes, 1), batch_size=64, shuffle=True,
                              num_workers=2, persistent_workers=True)
    val_loader = DataLoader(synth_glyphs(1536, classes, 2), batch_size=128,
                            num_workers=1, persistent_workers=True)
    trainer = Trainer(GlyphNet(classes), train_loader, val_loader)
    trainer.fit(int(os.environ.get("EPOCHS", 6)))
    val_loss, val_acc = trainer.evaluate()
    print(f"final: val {val_loss:.4f} acc {val_acc:.3f}")


if __name__ == "__main__":
    main()
