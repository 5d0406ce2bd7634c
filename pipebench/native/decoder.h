/* A decode of one box of a JPEG, row by row, with libjpeg-turbo's public API: what region.c and into.h share.
 *
 * What is outside the box is entropy-decoded where the format leaves no choice (every row above the box of a
 * sequential file without restart markers, all of a progressive one) and otherwise left alone: no inverse DCT, no
 * upsampling, no colour conversion, and nothing at all below the box. See stretches.h for files with markers.
 *
 * All memory of a decode belongs to the decompressor, which is destroyed on every path. There is no state between
 * calls, so any number of threads may call at once.
 */

#ifndef DECODER_H
#define DECODER_H

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

/* What a decoder does, and what is done with row `index` of the box. */
typedef void (*work_function)(struct decoder *decoder);
typedef void (*row_function)(struct decoder *decoder, const unsigned char *row, unsigned index);

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

static void decoding_stopped(struct decoder *decoder, JDIMENSION line) {
  fail(&decoder->outcome, TRUNCATED, "decoding stopped at row %u", line);
}

/* Reads the header, checks that the box lies inside the image, and asks for 1 / denominator. */
static void prepare_box(struct decoder *decoder) {
  struct jpeg_decompress_struct *info = &decoder->info;
  const struct box *box = &decoder->box;
  read_header(info, decoder->bytes);
  if (box->left > info->image_width || box->width > info->image_width - box->left || box->top > info->image_height ||
      box->height > info->image_height - box->top)
    fail(&decoder->outcome, OUTSIDE, "the box (left %u, top %u, width %u, height %u) reaches outside the image of %u × %u pixels",
         box->left, box->top, box->width, box->height, info->image_width, info->image_height);
  info->scale_num = 1;
  info->scale_denom = decoder->denominator;
}

/* Decodes the box and gives each of its rows to `take`, in pixels of `space` (3 or 4 bytes each). */
static void each_row(struct decoder *decoder, J_COLOR_SPACE space, row_function take) {
  struct jpeg_decompress_struct *info = &decoder->info;
  const struct box *box = &decoder->box;
  unsigned denominator = decoder->denominator;
  info->out_color_space = space;
  jpeg_start_decompress(info);
  struct box scaled = {box->left / denominator, box->top / denominator, 0, 0};
  scaled.width = (box->left + box->width - 1) / denominator + 1 - scaled.left;
  scaled.height = (box->top + box->height - 1) / denominator + 1 - scaled.top;
  size_t shift = (size_t)(scaled.left - crop_columns(info, &scaled)) * (size_t)info->output_components;
  skip_rows(info, &scaled);
  JDIMENSION row_bytes = info->output_width * (JDIMENSION)info->output_components;
  JSAMPARRAY rows = info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE, row_bytes, ROWS);
  while (info->output_scanline < scaled.top + scaled.height) {
    JDIMENSION line = info->output_scanline;
    JDIMENSION count = jpeg_read_scanlines(info, rows, ROWS);
    if (count == 0) decoding_stopped(decoder, line);
    for (JDIMENSION index = 0; index < count; index++, line++)
      if (line >= scaled.top && line < scaled.top + scaled.height)
        take(decoder, rows[index] + shift, line - scaled.top);
  }
}

/* Runs `work` on a decompressor of its own. `decoder` belongs to the caller, so that longjmp leaves it defined. */
static int run(struct decoder *decoder, const unsigned char *data, work_function work) {
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

/* Runs `work` on the stretches that the box touches, where restart markers save work; else on the file as it is.
 * Whatever is wrong with the stretches, the file as it is has the last word. */
static int run_on_box(struct decoder *decoder, const unsigned char *data, unsigned long bytes, work_function work) {
  struct box box = decoder->box;
  struct part part;
  if (cut_out(data, bytes, box, decoder->denominator, 0, &part)) {
    decoder->box = part.box;
    decoder->bytes = part.bytes;
    int kind = run(decoder, part.data, work);
    free(part.data);
    if (kind == DONE) return DONE;
  }
  decoder->box = box;
  decoder->bytes = bytes;
  return run(decoder, data, work);
}

#endif
