/* Decodes one box of a JPEG to RGB with libjpeg-turbo's public API; the other half is region.py, which explains it.
 *
 * What is outside the box is entropy-decoded where the format leaves no choice (every row above the box of a
 * sequential file, all of a progressive one) and otherwise left alone: no inverse DCT, no upsampling, no colour
 * conversion, and nothing at all below the box.
 *
 * libjpeg reports errors by a callback that must not return, hence setjmp. All memory belongs to the decompressor,
 * which is destroyed on every path. There is no state between calls, so any number of threads may call at once.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* 2.1.0 mended reads of uninitialised memory in block smoothing, and 2.0.90 jpeg_skip_scanlines (see ChangeLog.md). */
#if !defined(LIBJPEG_TURBO_VERSION_NUMBER) || LIBJPEG_TURBO_VERSION_NUMBER < 2001000
#error "jpeglib.h is not that of libjpeg-turbo 2.1 or later"
#endif

/* The size of a block after scaling is one number, or one a direction where libjpeg 7 and later are emulated. */
#if JPEG_LIB_VERSION >= 70
#define BLOCK_WIDTH(component) ((component)->DCT_h_scaled_size)
#define BLOCK_HEIGHT(component) ((component)->DCT_v_scaled_size)
#define IMAGE_BLOCK_WIDTH(info) ((info)->min_DCT_h_scaled_size)
#define IMAGE_BLOCK_HEIGHT(info) ((info)->min_DCT_v_scaled_size)
#else
#define BLOCK_WIDTH(component) ((component)->DCT_scaled_size)
#define BLOCK_HEIGHT(component) ((component)->DCT_scaled_size)
#define IMAGE_BLOCK_WIDTH(info) ((info)->min_DCT_scaled_size)
#define IMAGE_BLOCK_HEIGHT(info) ((info)->min_DCT_scaled_size)
#endif

#define TEXT_(token) #token
#define TEXT(token) TEXT_(token)
#define EXPORT __attribute__((visibility("default")))

enum {
  PIXEL_LIMIT = 178956970, /* where Pillow refuses an image: twice its MAX_IMAGE_PIXELS */
  SCAN_LIMIT = 100,        /* as in libjpeg-turbo's own fuzzers: a scan may cost seconds and take few bytes */
  MESSAGE_BYTES = 256,     /* as in region.py */
  ROWS = 4                 /* the most that the upsampler returns at once */
};

enum kind { DONE, CORRUPT, TRUNCATED, UNSUPPORTED, TOO_LARGE, NOT_JPEG, OUTSIDE, OUT_OF_MEMORY }; /* as in region.py */

struct box {
  JDIMENSION left, top, width, height;
};

struct decoder {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf failed;
  enum kind kind;
  char *message;
  unsigned long bytes;
  struct box box; /* in full-scale pixels */
  unsigned denominator;
  unsigned char *out;
};

static void fail(struct decoder *decoder, enum kind kind, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(decoder->message, MESSAGE_BYTES, format, values);
  va_end(values);
  decoder->kind = kind;
  longjmp(decoder->failed, 1);
}

static enum kind kind_of(int code) {
  switch (code) {
    case JERR_NO_SOI:
      return NOT_JPEG;
    case JERR_INPUT_EMPTY:
    case JERR_INPUT_EOF:
    case JWRN_JPEG_EOF:
      return TRUNCATED;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
      return UNSUPPORTED;
    case JERR_IMAGE_TOO_BIG:
      return TOO_LARGE;
    case JERR_OUT_OF_MEMORY:
      return OUT_OF_MEMORY;
    default:
      return CORRUPT;
  }
}

static void on_error(j_common_ptr common) {
  char text[JMSG_LENGTH_MAX];
  common->err->format_message(common, text);
  fail(common->client_data, kind_of(common->err->msg_code), "%s", text);
}

/* A warning means that libjpeg goes on with pixels that it made up, except for these. */
static void on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  switch (common->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_EXTRANEOUS_DATA: /* bytes between two markers, skipped; found in real data sets */
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return;
    default:
      on_error(common);
  }
}

static void print_nothing(j_common_ptr common) { (void)common; }

static void on_progress(j_common_ptr common) {
  struct decoder *decoder = common->client_data;
  if (decoder->info.input_scan_number > SCAN_LIMIT)
    fail(decoder, CORRUPT, "the file has more than %d scans", SCAN_LIMIT);
}

/* A file can claim any size: every block of every component takes at least one bit of its DC scan (a Huffman code is
 * no shorter), so what so few bytes cannot hold is refused before anything of that size is allocated. */
static void check_plausible(struct decoder *decoder) {
  const struct jpeg_decompress_struct *info = &decoder->info;
  unsigned long long blocks = 0;
  for (int index = 0; index < info->num_components; index++)
    blocks += (unsigned long long)info->comp_info[index].width_in_blocks * info->comp_info[index].height_in_blocks;
  if (blocks > 8ULL * decoder->bytes)
    fail(decoder, TRUNCATED, "%lu bytes cannot hold the %u × %u pixels that the header claims", decoder->bytes,
         info->image_width, info->image_height);
}

static void read_header(struct decoder *decoder) {
  struct jpeg_decompress_struct *info = &decoder->info;
  jpeg_read_header(info, TRUE);
  unsigned long long pixels = (unsigned long long)info->image_width * info->image_height;
  if (pixels > PIXEL_LIMIT)
    fail(decoder, TOO_LARGE, "the header claims %u × %u pixels; the limit is %d pixels", info->image_width,
         info->image_height, PIXEL_LIMIT);
  if (info->arith_code) fail(decoder, UNSUPPORTED, "arithmetic coding is not supported");
  if (info->data_precision != 8)
    fail(decoder, UNSUPPORTED, "%d bits a sample are not supported, only 8", info->data_precision);
  if (IMAGE_BLOCK_WIDTH(info) != DCTSIZE) fail(decoder, UNSUPPORTED, "lossless JPEG is not supported");
  if (info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK)
    fail(decoder, UNSUPPORTED, "%s colour is not supported, only grey, YCbCr and RGB",
         info->jpeg_color_space == JCS_CMYK ? "CMYK" : "YCCK");
  if (info->num_components != 1 && info->num_components != 3)
    fail(decoder, UNSUPPORTED, "%d components are not supported, only 1 or 3", info->num_components);
  check_plausible(decoder);
}

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
    if (count == 0) fail(decoder, TRUNCATED, "decoding stopped at row %u", line);
    for (JDIMENSION index = 0; index < count; index++, line++)
      if (line >= box->top && line < box->top + box->height)
        memcpy(decoder->out + (line - box->top) * row_bytes, rows[index] + shift, row_bytes);
  }
}

static void decode(struct decoder *decoder) {
  struct jpeg_decompress_struct *info = &decoder->info;
  const struct box *box = &decoder->box;
  unsigned denominator = decoder->denominator;
  read_header(decoder);
  if (box->left > info->image_width || box->width > info->image_width - box->left || box->top > info->image_height ||
      box->height > info->image_height - box->top)
    fail(decoder, OUTSIDE, "the box (left %u, top %u, width %u, height %u) reaches outside the image of %u × %u pixels",
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
  decoder->message[0] = 0;
  decoder->kind = DONE;
  info->mem = NULL;
  info->err = jpeg_std_error(&decoder->errors);
  decoder->errors.error_exit = on_error;
  decoder->errors.emit_message = on_message;
  decoder->errors.output_message = print_nothing;
  decoder->progress.progress_monitor = on_progress;
  info->client_data = decoder;
  if (setjmp(decoder->failed) == 0) {
    jpeg_create_decompress(info);
    info->progress = &decoder->progress;
    jpeg_mem_src(info, data, decoder->bytes);
    work(decoder);
  }
  jpeg_destroy_decompress(info);
  return decoder->kind;
}

/* The size in pixels that the header of `data` states. Returns a `kind`; `message` (MESSAGE_BYTES) says why not. */
EXPORT int region_size(const unsigned char *data, unsigned long bytes, unsigned *width, unsigned *height,
                       char *message) {
  struct decoder decoder;
  decoder.bytes = bytes;
  decoder.message = message;
  run(&decoder, data, read_header);
  if (decoder.kind == DONE) {
    *width = decoder.info.image_width;
    *height = decoder.info.image_height;
  }
  return decoder.kind;
}

/* Decodes the box, whose width and height are at least 1, at 1 / denominator (1, 2, 4 or 8) into `out`: rows of RGB,
 * as many as region.py's `scaled_size` says. Returns a `kind`; where it is not 0, `out` is partly or not written. */
EXPORT int region_decode(const unsigned char *data, unsigned long bytes, unsigned left, unsigned top, unsigned width,
                         unsigned height, unsigned denominator, unsigned char *out, char *message) {
  struct decoder decoder;
  decoder.bytes = bytes;
  decoder.message = message;
  decoder.box = (struct box){left, top, width, height};
  decoder.denominator = denominator;
  decoder.out = out;
  return run(&decoder, data, decode);
}

static void nothing(struct decoder *decoder) { (void)decoder; }

/* Whether the library that was loaded fits the header that this was compiled with: versions and sizes are compared
 * when a decompressor is made, and the copyright tells libjpeg-turbo from the libraries it replaces. */
EXPORT int region_check(char *message) {
  struct decoder decoder;
  static const unsigned char no_data[1];
  decoder.bytes = sizeof no_data;
  decoder.message = message;
  if (run(&decoder, no_data, nothing) != DONE) return decoder.kind;
  const char *copyright = decoder.errors.jpeg_message_table[JMSG_COPYRIGHT];
  if (copyright != NULL && strstr(copyright, "libjpeg-turbo") != NULL) return DONE;
  snprintf(message, MESSAGE_BYTES, "the libjpeg that was loaded is not libjpeg-turbo: %.150s",
           copyright ? copyright : "it names no author");
  return UNSUPPORTED;
}

/* The version of libjpeg-turbo whose header this was compiled with. */
EXPORT const char *region_version(void) { return TEXT(LIBJPEG_TURBO_VERSION); }
