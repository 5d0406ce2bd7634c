/* Decodes a box of a JPEG and resizes it into planes of red, green and blue, while its rows are in the cache.
 *
 * `exact`: the rows of the box in RGB, as every decoder shows them. Otherwise the planes of the file themselves (luma,
 * and chroma that mostly has half the size) are resized, and only the small results are converted to RGB. So no
 * chroma is enlarged only to be made smaller again. The box may then end in the middle of a sample.
 */

#ifndef INTO_H
#define INTO_H

#include "decoder.h"
#include "resample.h"

enum { CHANNELS = 3 };

/* One box to decode; as in resized.py. */
struct job {
  const unsigned char *data;
  unsigned long bytes;
  unsigned left, top, width, height, denominator, flip;
};

struct resizing {
  struct decoder decoder; /* first, because `work` and `take` are given it */
  unsigned width, height, flip;
  struct filter across[CHANNELS], down[CHANNELS];
  struct plane planes[CHANNELS];
  unsigned char *rows[CHANNELS];
};

/* Where pixels `begin` to `begin + size` of the image lie among `limit` samples, of which `share` make `whole` pixels.
 * Returns the first sample that they touch. `count` results are made of them. */
static unsigned axis_of(unsigned begin, unsigned size, unsigned share, unsigned whole, unsigned limit, unsigned count,
                        struct axis *axis) {
  unsigned first = begin * share / whole, end = parts_of((begin + size) * share, whole);
  axis->samples = least(end, limit) - first;
  axis->begin = (double)begin * share / whole - first;
  axis->scale = (double)size * share / whole / count;
  return first;
}

static void open_channel(struct resizing *resizing, int index, unsigned rows) {
  struct decoder *decoder = &resizing->decoder;
  open_plane(&decoder->info, &resizing->planes[index], &resizing->across[index], &resizing->down[index], rows,
             decoder->out + (size_t)index * resizing->width * resizing->height);
}

static void share_filters(struct resizing *resizing, int index) {
  resizing->across[index] = resizing->across[index - 1];
  resizing->down[index] = resizing->down[index - 1];
}

static void make_filters(struct resizing *resizing, int index, const struct axis *across, const struct axis *down) {
  struct jpeg_decompress_struct *info = &resizing->decoder.info;
  make_filter(info, &resizing->across[index], across, resizing->width, (int)resizing->flip, LANES);
  make_filter(info, &resizing->down[index], down, resizing->height, 0, PAIR);
}

static void split_row(struct decoder *decoder, const unsigned char *row, unsigned index) {
  struct resizing *resizing = (struct resizing *)decoder;
  unsigned width = decoder->box.width;
  (void)index;
  for (int channel = 0; channel < CHANNELS; channel++) {
    unsigned char *out = resizing->rows[channel];
    for (unsigned at = 0; at < width; at++) out[at] = row[4 * (size_t)at + channel];
    feed(&resizing->planes[channel], out);
  }
}

static void resize_rgb(struct decoder *decoder) {
  struct resizing *resizing = (struct resizing *)decoder;
  const struct box *box = &decoder->box;
  prepare_box(decoder);
  struct axis across = {box->width, 0, (double)box->width / resizing->width};
  struct axis down = {box->height, 0, (double)box->height / resizing->height};
  make_filters(resizing, 0, &across, &down);
  for (int channel = 0; channel < CHANNELS; channel++) {
    if (channel > 0) share_filters(resizing, channel);
    open_channel(resizing, channel, box->height);
    resizing->rows[channel] = reserve(&decoder->info, (size_t)box->width + resizing->across[0].taps);
  }
  each_row(decoder, JCS_EXT_RGBX, split_row);
}

/* One component of the file: the rows of samples of a row of MCUs, and which of them all the box touches. */
struct component {
  JSAMPARRAY rows;
  unsigned rows_each, first_row, first_column;
};

static int same_size(const jpeg_component_info *one, const jpeg_component_info *other) {
  return one->h_samp_factor == other->h_samp_factor && one->v_samp_factor == other->v_samp_factor &&
         BLOCK_WIDTH(one) == BLOCK_WIDTH(other) && BLOCK_HEIGHT(one) == BLOCK_HEIGHT(other);
}

/* Prepares the plane of a component. Both chroma components mostly have one size, and so one pair of filters. */
static void open_component(struct resizing *resizing, int index, struct component *component) {
  struct jpeg_decompress_struct *info = &resizing->decoder.info;
  const jpeg_component_info *given = &info->comp_info[index];
  const struct box *box = &resizing->decoder.box;
  unsigned columns_each = (unsigned)(given->h_samp_factor * BLOCK_WIDTH(given));
  struct axis across, down;
  component->rows_each = (unsigned)(given->v_samp_factor * BLOCK_HEIGHT(given));
  if (info->max_h_samp_factor * IMAGE_BLOCK_WIDTH(info) % (int)columns_each != 0 ||
      info->max_v_samp_factor * IMAGE_BLOCK_HEIGHT(info) % (int)component->rows_each != 0)
    fail(&resizing->decoder.outcome, UNSUPPORTED, "Fractional sampling is not supported"); /* as in libjpeg */
  component->first_column = axis_of(box->left, box->width, columns_each, (unsigned)info->max_h_samp_factor * DCTSIZE,
                                    given->downsampled_width, resizing->width, &across);
  component->first_row = axis_of(box->top, box->height, component->rows_each,
                                 (unsigned)info->max_v_samp_factor * DCTSIZE, given->downsampled_height,
                                 resizing->height, &down);
  if (index > 0 && same_size(given, given - 1))
    share_filters(resizing, index);
  else
    make_filters(resizing, index, &across, &down);
  open_channel(resizing, index, down.samples);
  size_t stride = (size_t)given->width_in_blocks * (size_t)BLOCK_WIDTH(given) + resizing->planes[index].across->taps;
  unsigned char *memory = reserve(info, stride * component->rows_each);
  component->rows = reserve(info, component->rows_each * sizeof *component->rows);
  for (unsigned row = 0; row < component->rows_each; row++) component->rows[row] = memory + row * stride;
}

static void feed_component(struct plane *plane, const struct component *component, unsigned mcu_row) {
  for (unsigned row = 0; row < component->rows_each; row++) {
    unsigned at = mcu_row * component->rows_each + row;
    if (at >= component->first_row && plane->fed < plane->rows) feed(plane, component->rows[row] + component->first_column);
  }
}

/* How much chroma adds to red, green and blue in JFIF, in units of 1 / 2^14. */
enum { RGB_BITS = 14, RED_OF_RED = 22970, GREEN_OF_BLUE = -5638, GREEN_OF_RED = -11700, BLUE_OF_BLUE = 29032 };

#ifdef __SSE2__

/* One colour of sixteen pixels: luma in units of 1 / 2^14, and so much of both chroma samples of each pixel. */
static __m128i colour(const __m128i luma[4], const __m128i chroma[4], short of_blue, short of_red) {
  const __m128i share = _mm_unpacklo_epi16(_mm_set1_epi16(of_blue), _mm_set1_epi16(of_red));
  __m128i sum[4];
  for (int index = 0; index < 4; index++) sum[index] = _mm_add_epi32(luma[index], _mm_madd_epi16(chroma[index], share));
  return rounded(sum, RGB_BITS);
}

static void sixteen_to_rgb(unsigned char *red, unsigned char *green, unsigned char *blue) {
  const __m128i zero = _mm_setzero_si128(), middle = _mm_set1_epi16(128);
  __m128i *out[] = {(__m128i *)red, (__m128i *)green, (__m128i *)blue};
  __m128i given[] = {_mm_loadu_si128(out[0]), _mm_loadu_si128(out[1]), _mm_loadu_si128(out[2])}, luma[4], chroma[4];
  for (int half = 0; half < 2; half++) {
    __m128i part[CHANNELS];
    for (int index = 0; index < CHANNELS; index++)
      part[index] = half ? _mm_unpackhi_epi8(given[index], zero) : _mm_unpacklo_epi8(given[index], zero);
    part[1] = _mm_sub_epi16(part[1], middle), part[2] = _mm_sub_epi16(part[2], middle);
    luma[2 * half] = _mm_srli_epi32(_mm_unpacklo_epi16(zero, part[0]), 16 - RGB_BITS);
    luma[2 * half + 1] = _mm_srli_epi32(_mm_unpackhi_epi16(zero, part[0]), 16 - RGB_BITS);
    chroma[2 * half] = _mm_unpacklo_epi16(part[1], part[2]);
    chroma[2 * half + 1] = _mm_unpackhi_epi16(part[1], part[2]);
  }
  _mm_storeu_si128(out[0], colour(luma, chroma, 0, RED_OF_RED));
  _mm_storeu_si128(out[1], colour(luma, chroma, GREEN_OF_BLUE, GREEN_OF_RED));
  _mm_storeu_si128(out[2], colour(luma, chroma, BLUE_OF_BLUE, 0));
}

#else

static void sixteen_to_rgb(unsigned char *red, unsigned char *green, unsigned char *blue) {
  for (int at = 0; at < WIDE; at++) {
    int luma = red[at] << RGB_BITS, of_blue = green[at] - 128, of_red = blue[at] - 128;
    red[at] = rounded(luma + RED_OF_RED * of_red, RGB_BITS);
    green[at] = rounded(luma + GREEN_OF_BLUE * of_blue + GREEN_OF_RED * of_red, RGB_BITS);
    blue[at] = rounded(luma + BLUE_OF_BLUE * of_blue, RGB_BITS);
  }
}

#endif

/* YCbCr to RGB in place. */
static void to_rgb(unsigned char *out, size_t pixels) {
  unsigned char last[CHANNELS][WIDE];
  size_t at = 0;
  for (; at + WIDE <= pixels; at += WIDE) sixteen_to_rgb(out + at, out + pixels + at, out + 2 * pixels + at);
  memset(last, 0, sizeof last);
  for (int channel = 0; channel < CHANNELS; channel++) memcpy(last[channel], out + channel * pixels + at, pixels - at);
  sixteen_to_rgb(last[0], last[1], last[2]);
  for (int channel = 0; channel < CHANNELS; channel++) memcpy(out + channel * pixels + at, last[channel], pixels - at);
}

/* Reads the rows of MCUs that the box touches. Those above are read without the inverse DCT. */
static void resize_planes(struct decoder *decoder) {
  struct resizing *resizing = (struct resizing *)decoder;
  struct jpeg_decompress_struct *info = &decoder->info;
  const struct box *box = &decoder->box;
  struct component components[CHANNELS];
  JSAMPARRAY rows[CHANNELS];
  prepare_box(decoder);
  info->raw_data_out = TRUE;
  info->out_color_space = info->jpeg_color_space;
  jpeg_start_decompress(info);
  int count = info->num_components;
  for (int index = 0; index < count; index++) {
    open_component(resizing, index, &components[index]);
    rows[index] = components[index].rows;
  }
  unsigned mcu_height = (unsigned)info->max_v_samp_factor * DCTSIZE;
  unsigned first = box->top / mcu_height, end = parts_of(box->top + box->height, mcu_height);
  for (unsigned row = 0; row < end; row++) {
    for (int index = 0; index < count; index++) info->comp_info[index].component_needed = row >= first;
    if (jpeg_read_raw_data(info, rows, (JDIMENSION)(info->max_v_samp_factor * IMAGE_BLOCK_HEIGHT(info))) == 0)
      decoding_stopped(decoder, row * mcu_height);
    for (int index = 0; row >= first && index < count; index++)
      feed_component(&resizing->planes[index], &components[index], row);
  }
  size_t pixels = (size_t)resizing->width * resizing->height;
  unsigned char *out = decoder->out;
  if (count == 1)
    memcpy(out + pixels, out, pixels), memcpy(out + 2 * pixels, out, pixels);
  else if (info->jpeg_color_space == JCS_YCbCr)
    to_rgb(out, pixels);
}

/* Does one job: planes of `width` by `height` bytes at `out`. Returns a `kind`; `message` says why not. */
static int resize_into(const struct job *job, unsigned width, unsigned height, int exact, unsigned char *out,
                       char *message) {
  struct resizing resizing;
  struct decoder *decoder = &resizing.decoder;
  decoder->outcome.message = message;
  decoder->box = (struct box){job->left, job->top, job->width, job->height};
  decoder->denominator = exact ? 1 : job->denominator;
  decoder->out = out;
  resizing.width = width;
  resizing.height = height;
  resizing.flip = job->flip;
  return run_on_box(decoder, job->data, job->bytes, exact ? resize_rgb : resize_planes);
}

#endif
