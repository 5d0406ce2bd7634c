"""Image files that are made in memory."""

import io

from PIL import Image


def encoded(image, format="JPEG", **options):
    """The bytes of an image file: of a Pillow image, or of an array of pixels."""
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, format, **options)
    return file.getvalue()


def encoded_image(format, size):
    return encoded(Image.new("RGB", size, "teal"), format)
