/* What region.c and pack.c share: errors of libjpeg-turbo's public API as values, and what a header may claim.
 *
 * libjpeg reports errors by a callback that must not return, hence setjmp. Everything that libjpeg is given points to
 * one `struct outcome`, where an error is noted and from which it returns to the caller.
 */

#ifndef READING_H
#define READING_H

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
  MESSAGE_BYTES = 256      /* as in passing.py */
};

enum kind { DONE, CORRUPT, TRUNCATED, UNSUPPORTED, TOO_LARGE, NOT_JPEG, OUTSIDE, OUT_OF_MEMORY }; /* as in passing.py */

/* How a call ended, and where it goes on after an error. */
struct outcome {
  jmp_buf failed;
  enum kind kind;
  char *message;
};

static void fail(struct outcome *outcome, enum kind kind, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(outcome->message, MESSAGE_BYTES, format, values);
  va_end(values);
  outcome->kind = kind;
  longjmp(outcome->failed, 1);
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
  if (common->is_decompressor && ((j_decompress_ptr)common)->input_scan_number > SCAN_LIMIT)
    fail(common->client_data, CORRUPT, "the file has more than %d scans", SCAN_LIMIT);
}

/* Fills `errors` so that everything that goes wrong ends in the client_data, a `struct outcome`. */
static struct jpeg_error_mgr *quiet(struct jpeg_error_mgr *errors) {
  jpeg_std_error(errors);
  errors->error_exit = on_error;
  errors->emit_message = on_message;
  errors->output_message = print_nothing;
  return errors;
}

/* A file can claim any size: every block of every component takes at least one bit of its DC scan (a Huffman code is
 * no shorter), so what so few bytes cannot hold is refused before anything of that size is allocated. */
static void check_plausible(const struct jpeg_decompress_struct *info, unsigned long bytes) {
  unsigned long long blocks = 0;
  for (int index = 0; index < info->num_components; index++)
    blocks += (unsigned long long)info->comp_info[index].width_in_blocks * info->comp_info[index].height_in_blocks;
  if (blocks > 8ULL * bytes)
    fail(info->client_data, TRUNCATED, "%lu bytes cannot hold the %u × %u pixels that the header claims", bytes,
         info->image_width, info->image_height);
}

/* Reads the header of a file of so many bytes and refuses what neither piece can use. */
static void read_header(struct jpeg_decompress_struct *info, unsigned long bytes) {
  struct outcome *outcome = info->client_data;
  jpeg_read_header(info, TRUE);
  unsigned long long pixels = (unsigned long long)info->image_width * info->image_height;
  if (pixels > PIXEL_LIMIT)
    fail(outcome, TOO_LARGE, "the header claims %u × %u pixels; the limit is %d pixels", info->image_width,
         info->image_height, PIXEL_LIMIT);
  if (info->arith_code) fail(outcome, UNSUPPORTED, "arithmetic coding is not supported");
  if (info->data_precision != 8)
    fail(outcome, UNSUPPORTED, "%d bits a sample are not supported, only 8", info->data_precision);
  if (IMAGE_BLOCK_WIDTH(info) != DCTSIZE) fail(outcome, UNSUPPORTED, "lossless JPEG is not supported");
  if (info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK)
    fail(outcome, UNSUPPORTED, "%s colour is not supported, only grey, YCbCr and RGB",
         info->jpeg_color_space == JCS_CMYK ? "CMYK" : "YCCK");
  if (info->num_components != 1 && info->num_components != 3)
    fail(outcome, UNSUPPORTED, "%d components are not supported, only 1 or 3", info->num_components);
  check_plausible(info, bytes);
}

/* Whether the library that was loaded fits the header that this was compiled with: versions and sizes are compared
 * when a decompressor is made, and the copyright tells libjpeg-turbo from the libraries it replaces. */
static int check_library(char *message) {
  struct outcome outcome = {.kind = DONE, .message = message};
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  message[0] = 0;
  info.mem = NULL;
  info.err = quiet(&errors);
  info.client_data = &outcome;
  if (setjmp(outcome.failed) == 0) jpeg_create_decompress(&info);
  jpeg_destroy_decompress(&info);
  if (outcome.kind != DONE) return outcome.kind;
  const char *copyright = errors.jpeg_message_table[JMSG_COPYRIGHT];
  if (copyright != NULL && strstr(copyright, "libjpeg-turbo") != NULL) return DONE;
  snprintf(message, MESSAGE_BYTES, "the libjpeg that was loaded is not libjpeg-turbo: %.150s",
           copyright ? copyright : "it names no author");
  return UNSUPPORTED;
}

#endif
