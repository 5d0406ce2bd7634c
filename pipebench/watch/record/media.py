"""Lists the functions of libraries that decode video and sound, and that make tokens of text.

A method stands with its class. `watch/stages/media_calls.py` times them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class MediaCall(NamedTuple):
    """A function or method, and its row.

    `group`: inside a row of one group, no function of the same group has a row of its own. `steps`: a call only begins,
    and each `next()` of what it gives works. `by_class`: the row has the name of the object's class.
    """

    path: str
    kind: str
    group: str
    includes_read: bool = False
    steps: bool = False
    by_class: bool = False


def _each(owner: str, names: str, kind: str, group: str, includes_read: bool = False) -> Iterator[MediaCall]:
    yield from (MediaCall(f"{owner}.{name}", kind, group, includes_read) for name in names.split())


_FRAMES = (
    "__init__ __getitem__ get_frame_at get_frames_at get_frames_in_range get_frame_played_at get_frames_played_at "
    "get_frames_played_in_range get_all_frames"
)
_SAMPLES = "__init__ get_all_samples get_samples_played_in_range"
_TOKENISE = "__call__ encode encode_plus batch_encode_plus pad tokenize apply_chat_template"
MEDIA: dict[str, tuple[MediaCall, ...]] = {
    "av.container.core": (MediaCall("open", "read", "av"),),
    "av.container.input": (
        MediaCall("InputContainer.decode", "decode", "av", True, steps=True),
        MediaCall("InputContainer.demux", "read", "av", steps=True),
        MediaCall("InputContainer.seek", "read", "av"),
    ),
    "av.packet": (MediaCall("Packet.decode", "decode", "av"),),
    "av.codec.context": (MediaCall("CodecContext.decode", "decode", "av"),),
    "av.video.frame": tuple(_each("VideoFrame", "to_ndarray to_image to_rgb reformat", "transform", "av frames")),
    "av.video.reformatter": tuple(_each("VideoReformatter", "reformat", "transform", "av frames")),
    "av.audio.frame": tuple(_each("AudioFrame", "to_ndarray", "transform", "av frames")),
    "av.audio.resampler": tuple(_each("AudioResampler", "resample", "transform", "av frames")),
    "torchcodec.decoders._video_decoder": tuple(_each("VideoDecoder", _FRAMES, "decode", "torchcodec", True)),
    "torchcodec.decoders._audio_decoder": tuple(_each("AudioDecoder", _SAMPLES, "decode", "sound", True)),
    "torchcodec.decoders._wav_decoder": tuple(_each("WavDecoder", _SAMPLES, "decode", "sound", True)),
    "decord.video_reader": tuple(
        _each("VideoReader", "__init__ __getitem__ get_batch next seek_accurate", "decode", "decord", True)
    ),
    "decord.audio_reader": tuple(_each("AudioReader", "__init__ __getitem__ get_batch", "decode", "decord", True)),
    "soundfile": (
        MediaCall("read", "decode", "sound", True), MediaCall("SoundFile.__init__", "read", "sound"),
        MediaCall("SoundFile.read", "decode", "sound", True),
    ),
    "librosa.core.audio": (
        MediaCall("load", "decode", "sound", True), MediaCall("resample", "transform", "librosa"),
    ),
    "torchaudio": (MediaCall("load", "decode", "sound", True),),
    "tokenizers": tuple(_each("Tokenizer", "encode encode_batch encode_batch_fast", "tokenise", "text")),
    "tiktoken.core": tuple(
        _each("Encoding", "encode encode_ordinary encode_batch encode_ordinary_batch", "tokenise", "text")
    ),
    "sentencepiece": tuple(_each("SentencePieceProcessor", "Encode encode", "tokenise", "text")),
    "transformers.tokenization_utils_base": tuple(
        one._replace(by_class=True) for one in _each("PreTrainedTokenizerBase", _TOKENISE, "tokenise", "text")
    ),
}  # fmt: skip


def row_of(module: str, call: MediaCall) -> str:
    """The name of a row: a method with its class, a function with its library, and a class for its constructor."""
    name = call.path.removesuffix(".__init__")
    return name if "." in call.path else f"{module.partition('.')[0]}.{name}"


_DECODED = {row_of(module, one): module for module, calls in MEDIA.items() for one in calls if one.kind == "decode"}


def kind_of_stage(row: str, kind: str, includes_read: object) -> str:
    """The kind of a row by what `pipebench run` measures: a decoder of video is "video", and one of sound "sound"."""
    module = _DECODED.get(row)
    if module is None or kind != "decode":
        return "decode" if includes_read else kind
    audio = "audio" in module or MEDIA[module][0].group == "sound"
    return "sound" if audio else "video"
