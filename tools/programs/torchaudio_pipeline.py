"""torchaudio: a dataset with the pipeline of modules of https://docs.pytorch.org/audio/stable/transforms.html."""

import sys
from pathlib import Path

import soundfile
import torch
import torchaudio.transforms as T
from loops import small, train
from torch.utils.data import DataLoader, Dataset


class MyPipeline(torch.nn.Module):
    def __init__(self, input_freq=16000, resample_freq=8000, n_fft=512, n_mel=64):
        super().__init__()
        self.resample = T.Resample(orig_freq=input_freq, new_freq=resample_freq)
        self.spec = T.Spectrogram(n_fft=n_fft, power=2)
        self.spec_aug = torch.nn.Sequential(T.FrequencyMasking(freq_mask_param=40), T.TimeMasking(time_mask_param=20))
        self.mel_scale = T.MelScale(n_mels=n_mel, sample_rate=resample_freq, n_stft=n_fft // 2 + 1)

    def forward(self, waveform):
        return self.mel_scale(self.spec_aug(self.spec(self.resample(waveform))))


class Tones(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.wav"))
        self.pipeline = MyPipeline()
        self.to_db = T.AmplitudeToDB()

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        samples, _ = soundfile.read(self.files[index], dtype="float32")
        return self.to_db(self.pipeline(torch.from_numpy(samples)[None])), "abcd".index(self.files[index].name[0])


if __name__ == "__main__":
    torch.manual_seed(7)
    loader = DataLoader(Tones(Path(sys.argv[1]) / "sounds"), batch_size=8, shuffle=True, num_workers=2)
    train(loader, small(1), 2)
