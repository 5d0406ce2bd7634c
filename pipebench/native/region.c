/* Decodes boxes of JPEGs to RGB with libjpeg-turbo's public API; the other half is region.py, which explains it.
 *
 * decoder.h decodes a box, stretches.h finds it by restart markers, and into.h resizes it.
 */

#include "decoder.h"
#include "into.h"

static void header_of(struct decoder *decoder) { read_header(&decoder->info, decoder->bytes); }

/* The size in pixels that the header of `data` states. Returns a `kind`; `message` (MESSAGE_BYTES) says why not. */
EXPORT int region_size(const unsigned char *data, unsigned long bytes, unsigned *width, unsigned *height,
                       char *message) {
  struct decoder decoder;
  decoder.bytes = bytes;
  decoder.outcome.message = message;
  int kind = run(&decoder, data, header_of);
  if (kind == DONE) {
    *width = decoder.info.image_width;
    *height = decoder.info.image_height;
  }
  return kind;
}

static void copy_row(struct decoder *decoder, const unsigned char *row, unsigned index) {
  const struct box *box = &decoder->box;
  unsigned denominator = decoder->denominator;
  size_t row_bytes = 3 * (size_t)((box->left + box->width - 1) / denominator + 1 - box->left / denominator);
  memcpy(decoder->out + index * row_bytes, row, row_bytes);
}

static void decode(struct decoder *decoder) {
  prepare_box(decoder);
  each_row(decoder, JCS_RGB, copy_row);
}

/* Decodes the box, whose width and height are at least 1, at 1 / denominator (1, 2, 4 or 8) into `out`: rows of RGB,
 * as many as region.py's `scaled_size` says. Returns a `kind`; where it is not 0, `out` is partly or not written. */
EXPORT int region_decode(const unsigned char *data, unsigned long bytes, unsigned left, unsigned top, unsigned width,
                         unsigned height, unsigned denominator, unsigned char *out, char *message) {
  struct decoder decoder;
  decoder.outcome.message = message;
  decoder.box = (struct box){left, top, width, height};
  decoder.denominator = denominator;
  decoder.out = out;
  return run_on_box(&decoder, data, bytes, decode);
}

/* Decodes and resizes the box of each of `count` jobs into `out`: for each, planes of red, green and blue of `width` by
 * `height` bytes. Returns a `kind`; where it is not 0, job `*failed` is the first that failed. */
EXPORT int region_batch(const struct job *jobs, unsigned count, unsigned width, unsigned height, int exact,
                        unsigned char *out, unsigned *failed, char *message) {
  for (*failed = 0; *failed < count; ++*failed) {
    int kind = resize_into(&jobs[*failed], width, height, exact, out + 3 * (size_t)width * height * *failed, message);
    if (kind != DONE) return kind;
  }
  return DONE;
}

/* Makes a smaller JPEG of the stretches between restart markers that `box` touches. Returns its number of bytes, or 0
 * if there is none; `*stream` is freed by `region_free`. The box begins at `*left` and `*top` of it. */
EXPORT unsigned long region_stream(const unsigned char *data, unsigned long bytes, unsigned *left, unsigned *top,
                                   unsigned width, unsigned height, unsigned char **stream) {
  struct part part;
  if (!cut_out(data, bytes, (struct box){*left, *top, width, height}, 1, 1, &part)) return 0;
  *stream = part.data;
  *left = part.box.left;
  *top = part.box.top;
  return part.bytes;
}

EXPORT void region_free(unsigned char *stream) { free(stream); }

/* Whether the library that was loaded fits the header that this was compiled with; `message` says why not. */
EXPORT int region_check(char *message) { return check_library(message); }

/* The version of libjpeg-turbo whose header this was compiled with. */
EXPORT const char *region_version(void) { return TEXT(LIBJPEG_TURBO_VERSION); }
