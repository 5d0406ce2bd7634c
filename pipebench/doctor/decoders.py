"""The decoders of JPEGs, and the libjpeg inside each of them."""

from __future__ import annotations

from collections.abc import Iterator

from pipebench.doctor.checking import NotKnown, check, fine, hurts, know
from pipebench.doctor.host import Host
from pipebench.results.examination import Finding
from pipebench.units import printable

_OTHERS = ("simplejpeg", "torchcodec")  # the first holds libjpeg-turbo itself


@check
def decoders(host: Host) -> Finding:
    pillow = host.answer("pillow")
    if error := pillow.get("error"):
        raise NotKnown(f"Pillow cannot be imported: {printable(str(error))[:200]}")
    said = "; ".join(_said(host))
    matters = "Without the vector instructions of libjpeg-turbo, a JPEG takes about three times as long."
    if pillow and not pillow["turbo"]:
        remedy = "install Pillow's own build, or a libjpeg-turbo (conda: libjpeg-turbo in place of jpeg)"
        return hurts(said, matters, remedy, "pip install --force-reinstall --no-deps pillow")
    if host.environ.get("JSIMD_FORCENONE") == "1":
        return hurts("JSIMD_FORCENONE=1 turns vector instructions off", matters, "unset it", "unset JSIMD_FORCENONE")
    if (jpeg := str(host.answers.get("opencv", {}).get("jpeg", ""))) and "turbo" not in jpeg:
        return know(said, f"{matters} Here this is OpenCV's case.", "install OpenCV's own build",
                    "pip install --force-reinstall --no-deps opencv-python-headless")  # fmt: skip
    if broken := [one for one in _OTHERS if "error" in host.answers.get(one, {})]:
        why = printable(str(host.answers[broken[0]]["error"]))[:120]
        remedy = "install FFmpeg, which torchcodec loads" if broken[0] == "torchcodec" else "install it again"
        return know(f"{broken[0]} is installed and cannot be imported: {why}", "Its variants are skipped.", remedy)
    return fine(said)


def _said(host: Host) -> Iterator[str]:
    """Each decoder that is here, with its libjpeg."""
    if pillow := host.answer("pillow"):
        kind = "libjpeg-turbo" if pillow["turbo"] else "libjpeg without turbo,"
        yield f"Pillow {printable(pillow['version'])} with {kind} {printable(str(pillow['jpeg']))}"
    if opencv := host.answers.get("opencv", {}).get("version"):
        jpeg = str(host.answers["opencv"].get("jpeg", "")).removeprefix("JPEG:").strip()
        yield f"OpenCV {printable(opencv)} with {printable(jpeg) or 'an unknown libjpeg'}"
    for one in _OTHERS:
        if version := host.answers.get(one, {}).get("version"):
            yield f"{one} {printable(version)}"
