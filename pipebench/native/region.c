/* Decodes one box of a JPEG to RGB with libjpeg-turbo's public API; the other half is region.py, which explains it.
 *
 * What is outside the box is entropy-decoded where the format leaves no choice (every row above the box of a
 * sequential file without restart markers, all of a progressive one) and otherwise left alone: no inverse DCT, no
 * upsampling, no colour conversion, and nothing at all below the box. See stretches.h for files with markers.
 *
 * All memory of a decode belongs to the decompressor, which is destroyed on every path. There is no state between
 * calls, so any number of threads may call at once.
 */

#include "reading.h"
#include "stretches.h"

enum { ROWS = 4 }; /* the most that the upsampler returns at once */

struct decoder {
  struct outcome outcome; /* first, because it is what libjpeg is given */
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  unsigned long bytes;
  struct box box; /* in full-scale pixels */
  unsigned denominator;
  unsigned char *out;
};

static void header_of(struct decoder *decoder) { read_header(&decoder->info, decoder->bytes); }

/* Whether jpeg_crop_scanline may be used: before 3.0.0 it takes too narrow a row for components that the scaled inverse
 * DCT enlarges, and where they are then upsampled as well (4x2 and the like) the rows end in uninitialised memory. */
static int may_crop_columns(const struct jpeg_decompress_struct *info) {
  for (int index = 0; index < info->num_components; index++) {
    const jpeg_component_info *component = &info->comp_info[index];
    int enlarged = BLOCK_WIDTH(component) != IMAGE_BLOCK_WIDTH(info);
    int as_wide = component->h_samp_factor * BLOCK_WIDTH(component) == info->max_h_samp_factor * IMAGE_BLOCK_WIDTH(info);
    int as_high =
        component->v_samp_factor * BLOCK_HEIGHT(component) == info->max_v_samp_factor * IMAGE_BLOCK_HEIGHT(info);
    if (enlarged && !(as_wide && as_high)) return 0;
  }
  return 1;
}

/* Limits decoding to the columns of `box` and a margin on both sides; returns the column at which rows then begin.
 * Fancy upsampling mixes neighbouring chroma samples and is not exact at a cut, so one iMCU is added; block smoothing
 * of unfinished progressive files looks two blocks aside, so there it is two. */
static JDIMENSION crop_columns(struct jpeg_decompress_struct *info, const struct box *box) {
  JDIMENSION margin = (JDIMENSION)(info->max_h_samp_factor * IMAGE_BLOCK_WIDTH(info)) * (info->progressive_mode ? 2 : 1);
  JDIMENSION begin = box->left > margin ? box->left - margin : 0;
  JDIMENSION end = box->left + box->width + margin;
  if (end > info->output_width) end = info->output_width;
  JDIMENSION width = end - begin;
  if (width == info->output_width || !may_crop_columns(info)) return 0;
  jpeg_crop_scanline(info, &begin, &width); /* moves `begin` down to an iMCU */
  return begin;
}

/* Passes over the rows above `box`, but for one iMCU row, which is decoded for the same reason. One row more is passed
 * over, because jpeg_skip_scanlines never begins at the first row of an iMCU: it would decode another one above. */
static void skip_rows(struct jpeg_decompress_struct *info, const struct box *box) {
  JDIMENSION imcu = (JDIMENSION)(info->max_v_samp_factor * IMAGE_BLOCK_HEIGHT(info));
  JDIMENSION begin = box->top / imcu * imcu;
  if (begin > imcu) jpeg_skip_scanlines(info, begin - imcu + 1);
}

static void copy_rows(struct decoder *decoder, const struct box *box, JDIMENSION first_column) {
  struct jpeg_decompress_struct *info = &decoder->info;
  JSAMPARRAY rows = info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE, info->output_width * 3, ROWS);
  size_t row_bytes = (size_t)box->width * 3, shift = (size_t)(box->left - first_column) * 3;
  while (info->output_scanline < box->top + box->height) {
    JDIMENSION line = info->output_scanline;
    JDIMENSION count = jpeg_read_scanlines(info, rows, ROWS);
    if (count == 0) fail(&decoder->outcome, TRUNCATED, "decoding stopped at row %u", line);
    for (JDIMENSION index = 0; index < count; index++, line++)
      if (line >= box->top && line < box->top + box->height)
        memcpy(decoder->out + (line - box->top) * row_bytes, rows[index] + shift, row_bytes);
  }
}

static void decode(struct decoder *decoder) {
  struct jpeg_decompress_struct *info = &decoder->info;
  const struct box *box = &decoder->box;
  unsigned denominator = decoder->denominator;
  header_of(decoder);
  if (box->left > info->image_width || box->width > info->image_width - box->left || box->top > info->image_height ||
      box->height > info->image_height - box->top)
    fail(&decoder->outcome, OUTSIDE, "the box (left %u, top %u, width %u, height %u) reaches outside the image of %u × %u pixels",
         box->left, box->top, box->width, box->height, info->image_width, info->image_height);
  info->out_color_space = JCS_RGB;
  info->scale_num = 1;
  info->scale_denom = denominator;
  jpeg_start_decompress(info);
  struct box scaled = {box->left / denominator, box->top / denominator, 0, 0};
  scaled.width = (box->left + box->width - 1) / denominator + 1 - scaled.left;
  scaled.height = (box->top + box->height - 1) / denominator + 1 - scaled.top;
  JDIMENSION first_column = crop_columns(info, &scaled);
  skip_rows(info, &scaled);
  copy_rows(decoder, &scaled, first_column);
}

/* Runs `work` on a decompressor of its own. `decoder` belongs to the caller, so that longjmp leaves it defined. */
static int run(struct decoder *decoder, const unsigned char *data, void (*work)(struct decoder *)) {
  struct jpeg_decompress_struct *info = &decoder->info;
  decoder->outcome.message[0] = 0;
  decoder->outcome.kind = DONE;
  info->mem = NULL;
  info->err = quiet(&decoder->errors);
  decoder->progress.progress_monitor = on_progress;
  info->client_data = &decoder->outcome;
  if (setjmp(decoder->outcome.failed) == 0) {
    jpeg_create_decompress(info);
    info->progress = &decoder->progress;
    jpeg_mem_src(info, data, decoder->bytes);
    work(decoder);
  }
  jpeg_destroy_decompress(info);
  return decoder->outcome.kind;
}

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

static int decode_box(const unsigned char *data, unsigned long bytes, struct box box, unsigned denominator,
                      unsigned char *out, char *message) {
  struct decoder decoder;
  decoder.bytes = bytes;
  decoder.outcome.message = message;
  decoder.box = box;
  decoder.denominator = denominator;
  decoder.out = out;
  return run(&decoder, data, decode);
}

/* Decodes the box, whose width and height are at least 1, at 1 / denominator (1, 2, 4 or 8) into `out`: rows of RGB,
 * as many as region.py's `scaled_size` says. Returns a `kind`; where it is not 0, `out` is partly or not written.
 * Restart markers are used where they save work. Whatever is wrong then, the file as it is has the last word. */
EXPORT int region_decode(const unsigned char *data, unsigned long bytes, unsigned left, unsigned top, unsigned width,
                         unsigned height, unsigned denominator, unsigned char *out, char *message) {
  struct box box = {left, top, width, height};
  struct part part;
  if (cut_out(data, bytes, box, denominator, 0, &part)) {
    int kind = decode_box(part.data, part.bytes, part.box, denominator, out, message);
    free(part.data);
    if (kind == DONE) return DONE;
  }
  return decode_box(data, bytes, box, denominator, out, message);
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
