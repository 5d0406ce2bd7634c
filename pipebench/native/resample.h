/* Resizes a plane of 8-bit samples with antialiasing, row by row as the rows come.
 *
 * Every result is a weighted sum of its neighbours, first along rows, then along columns, with the weights of a triangle
 * as wide as two results. Its formula, the rounding of weights to 16 bits and the order of both directions are those of
 * torch's `interpolate(mode="bilinear", antialias=True)` of uint8 (aten/src/ATen/native/cpu/UpSampleKernel.cpp), which
 * follows Pillow's `ImagingResample`: the results are the same, bit by bit. Only so many rows are kept as the triangle
 * is high, so they stay in the cache.
 */

#ifndef RESAMPLE_H
#define RESAMPLE_H

#include <math.h>
#include <stddef.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "reading.h"

enum {
  FEW = 4,   /* samples of a row that most results are made of, because a box is decoded below twice its size */
  LANES = 8, /* samples of a row that are summed at once, where there are more */
  PAIR = 2,  /* rows that are summed at once */
  WIDE = 16, /* results that are made at once */
  MOST_BITS = 22,  /* of a weight's fraction, as in torch */
  WEIGHT_LIMIT = 1 << 15
};

/* One axis of a plane: the samples that the box touches, where among them it begins (a fraction of the first), and how
 * many of them make one result. */
struct axis {
  unsigned samples;
  double begin, scale;
};

/* The weights of all results along one axis. */
struct filter {
  unsigned count, taps; /* results, and the weights of each, filled up with zeros */
  int bits;             /* a weight counts 1 / 2^bits */
  unsigned *first;      /* the first sample of each result */
  short *weights;
};

/* A plane on its way from `rows` rows of samples to its results. `kept` are the last rows, resized along themselves. */
struct plane {
  const struct filter *across, *down;
  unsigned rows, fed, made;
  size_t stride;
  unsigned char *kept, *out;
  const unsigned char **window; /* the kept rows that one row of results is made of */
};

/* Memory of a decompressor, all zeros: whatever lies beyond a row is read, with a weight of zero. */
static void *reserve(struct jpeg_decompress_struct *info, size_t bytes) {
  void *memory = info->mem->alloc_large((j_common_ptr)info, JPOOL_IMAGE, bytes);
  return memset(memory, 0, bytes);
}

static unsigned filled_up(unsigned number, unsigned multiple) { return (number + multiple - 1) / multiple * multiple; }

static double centre_of(const struct axis *axis, unsigned index) { return axis->begin + axis->scale * (index + 0.5); }

/* The samples that result `index` is made of: from `*first` on, so many as are returned. */
static unsigned window(const struct axis *axis, unsigned index, unsigned *first) {
  double centre = centre_of(axis, index), support = axis->scale > 1 ? axis->scale : 1;
  double begin = centre - support + 0.5, end = centre + support + 0.5;
  *first = begin > 0 ? (unsigned)begin : 0;
  return (end < axis->samples ? (unsigned)end : axis->samples) - *first;
}

/* The weights of result `index`, whose sum is 1. Returns the largest. */
static double weigh(const struct axis *axis, unsigned index, double *weights) {
  double centre = centre_of(axis, index), inverse = axis->scale > 1 ? 1 / axis->scale : 1, total = 0, largest = 0;
  unsigned first, taps = window(axis, index, &first);
  for (unsigned tap = 0; tap < taps; tap++) {
    double distance = fabs((tap + first - centre + 0.5) * inverse);
    weights[tap] = distance < 1 ? 1 - distance : 0;
    total += weights[tap];
  }
  for (unsigned tap = 0; tap < taps; tap++) {
    weights[tap] /= total;
    if (weights[tap] > largest) largest = weights[tap];
  }
  return largest;
}

/* Makes the filter from `axis` to `count` results, in reverse order if `flip`. `at_once` taps are summed at once. */
static void make_filter(struct jpeg_decompress_struct *info, struct filter *filter, const struct axis *axis,
                        unsigned count, int flip, unsigned at_once) {
  unsigned most = 0, slots = filled_up(count, WIDE), first;
  for (unsigned index = 0; index < count; index++) {
    unsigned taps = window(axis, index, &first);
    if (taps > most) most = taps;
  }
  filter->count = count;
  filter->taps = at_once == LANES && most <= FEW ? FEW : filled_up(most, at_once);
  filter->first = reserve(info, slots * sizeof *filter->first);
  filter->weights = reserve(info, (size_t)slots * filter->taps * sizeof *filter->weights);
  double *exact = reserve(info, (size_t)count * most * sizeof *exact), largest = 0;
  for (unsigned index = 0; index < count; index++) {
    double heaviest = weigh(axis, index, exact + (size_t)index * most);
    if (heaviest > largest) largest = heaviest;
  }
  for (filter->bits = 0; filter->bits < MOST_BITS; filter->bits++)
    if ((int)(0.5 + largest * (1 << (filter->bits + 1))) >= WEIGHT_LIMIT) break;
  for (unsigned index = 0; index < count; index++) {
    unsigned place = flip ? count - 1 - index : index;
    short *weights = filter->weights + (size_t)place * filter->taps;
    window(axis, index, &filter->first[place]);
    for (unsigned tap = 0; tap < most; tap++)
      weights[tap] = (short)(0.5 + exact[(size_t)index * most + tap] * (1 << filter->bits));
  }
}

#ifdef __SSE2__

/* Four results along a row of at most FEW samples each, not rounded yet. */
static inline __m128i four_of_few(const unsigned char *row, const unsigned *first, const short *weights) {
  const __m128i zero = _mm_setzero_si128();
  int samples[4];
  for (unsigned lane = 0; lane < 4; lane++) memcpy(&samples[lane], row + first[lane], FEW);
  __m128i all = _mm_setr_epi32(samples[0], samples[1], samples[2], samples[3]);
  __m128i one = _mm_madd_epi16(_mm_unpacklo_epi8(all, zero), _mm_loadu_si128((const __m128i *)weights));
  __m128i two = _mm_madd_epi16(_mm_unpackhi_epi8(all, zero), _mm_loadu_si128((const __m128i *)(weights + 2 * FEW)));
  __m128 even = _mm_shuffle_ps(_mm_castsi128_ps(one), _mm_castsi128_ps(two), _MM_SHUFFLE(2, 0, 2, 0));
  __m128 odd = _mm_shuffle_ps(_mm_castsi128_ps(one), _mm_castsi128_ps(two), _MM_SHUFFLE(3, 1, 3, 1));
  return _mm_add_epi32(_mm_castps_si128(even), _mm_castps_si128(odd));
}

/* Four results along a row, not rounded yet. */
static inline __attribute__((always_inline)) __m128i four_across(const unsigned char *row, const unsigned *first,
                                                                 const short *weights, unsigned taps) {
  const __m128i zero = _mm_setzero_si128();
  __m128i sum[4] = {zero, zero, zero, zero};
  for (unsigned lane = 0; lane < 4; lane++, weights += taps)
    for (unsigned tap = 0; tap < taps; tap += LANES) {
      __m128i some = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(row + first[lane] + tap)), zero);
      sum[lane] = _mm_add_epi32(sum[lane], _mm_madd_epi16(some, _mm_loadu_si128((const __m128i *)(weights + tap))));
    }
  __m128i one = _mm_add_epi32(_mm_unpacklo_epi32(sum[0], sum[1]), _mm_unpackhi_epi32(sum[0], sum[1]));
  __m128i two = _mm_add_epi32(_mm_unpacklo_epi32(sum[2], sum[3]), _mm_unpackhi_epi32(sum[2], sum[3]));
  return _mm_add_epi32(_mm_unpacklo_epi64(one, two), _mm_unpackhi_epi64(one, two));
}

/* Sixteen sums to bytes: rounded, shifted, and kept between 0 and 255. */
static inline __m128i rounded(const __m128i sum[4], int bits) {
  const __m128i half = _mm_set1_epi32(1 << bits >> 1), shift = _mm_cvtsi32_si128(bits);
  __m128i part[4];
  for (int index = 0; index < 4; index++) part[index] = _mm_sra_epi32(_mm_add_epi32(sum[index], half), shift);
  return _mm_packus_epi16(_mm_packs_epi32(part[0], part[1]), _mm_packs_epi32(part[2], part[3]));
}

static inline __attribute__((always_inline)) void across_by(const struct filter *filter, const unsigned char *row,
                                                            unsigned char *out, unsigned taps) {
  const short *weights = filter->weights;
  for (unsigned at = 0; at < filter->count; at += WIDE, weights += WIDE * taps) {
    __m128i sum[4];
    for (unsigned index = 0; index < 4; index++)
      sum[index] = taps == FEW ? four_of_few(row, filter->first + at + 4 * index, weights + 4 * index * taps)
                               : four_across(row, filter->first + at + 4 * index, weights + 4 * index * taps, taps);
    _mm_storeu_si128((__m128i *)(out + at), rounded(sum, filter->bits));
  }
}

/* Resizes a row along itself. */
static void across(const struct filter *filter, const unsigned char *row, unsigned char *out) {
  if (filter->taps == FEW) /* the usual cases, for which the compiler makes loops of their own */
    across_by(filter, row, out, FEW);
  else if (filter->taps == LANES)
    across_by(filter, row, out, LANES);
  else
    across_by(filter, row, out, filter->taps);
}

/* Sixteen results of a row of results, from column `at` on. */
static void down(const struct plane *plane, const short *weights, unsigned at, unsigned char *out) {
  const __m128i zero = _mm_setzero_si128();
  __m128i sum[4] = {zero, zero, zero, zero};
  for (unsigned tap = 0; tap < plane->down->taps; tap += PAIR) {
    __m128i one = _mm_loadu_si128((const __m128i *)(plane->window[tap] + at));
    __m128i two = _mm_loadu_si128((const __m128i *)(plane->window[tap + 1] + at));
    __m128i low = _mm_unpacklo_epi8(one, two), high = _mm_unpackhi_epi8(one, two);
    int both; /* weights, one for each of the rows */
    memcpy(&both, weights + tap, sizeof both);
    __m128i pair = _mm_set1_epi32(both);
    sum[0] = _mm_add_epi32(sum[0], _mm_madd_epi16(_mm_unpacklo_epi8(low, zero), pair));
    sum[1] = _mm_add_epi32(sum[1], _mm_madd_epi16(_mm_unpackhi_epi8(low, zero), pair));
    sum[2] = _mm_add_epi32(sum[2], _mm_madd_epi16(_mm_unpacklo_epi8(high, zero), pair));
    sum[3] = _mm_add_epi32(sum[3], _mm_madd_epi16(_mm_unpackhi_epi8(high, zero), pair));
  }
  _mm_storeu_si128((__m128i *)out, rounded(sum, plane->down->bits));
}

#else

static unsigned char rounded(int sum, int bits) {
  sum = (sum + (1 << bits >> 1)) >> bits;
  return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void across(const struct filter *filter, const unsigned char *row, unsigned char *out) {
  for (unsigned at = 0; at < filter->count; at++) {
    const unsigned char *samples = row + filter->first[at];
    const short *weights = filter->weights + (size_t)at * filter->taps;
    int sum = 0;
    for (unsigned tap = 0; tap < filter->taps; tap++) sum += samples[tap] * weights[tap];
    out[at] = rounded(sum, filter->bits);
  }
}

static void down(const struct plane *plane, const short *weights, unsigned at, unsigned char *out) {
  int sums[WIDE] = {0};
  for (unsigned tap = 0; tap < plane->down->taps; tap++)
    for (unsigned lane = 0; lane < WIDE; lane++) sums[lane] += plane->window[tap][at + lane] * weights[tap];
  for (unsigned lane = 0; lane < WIDE; lane++) out[lane] = rounded(sums[lane], plane->down->bits);
}

#endif

/* Prepares a plane of so many rows. `out` gets its results. */
static void open_plane(struct jpeg_decompress_struct *info, struct plane *plane, const struct filter *across,
                       const struct filter *down, unsigned rows, unsigned char *out) {
  *plane = (struct plane){across, down, rows, 0, 0, filled_up(across->count, WIDE), NULL, out, NULL};
  plane->kept = reserve(info, plane->stride * down->taps);
  plane->window = reserve(info, down->taps * sizeof *plane->window);
}

/* Makes the next row of results of the rows that are kept. */
static void make_row(struct plane *plane) {
  unsigned width = plane->across->count, taps = plane->down->taps, first = plane->down->first[plane->made], at = 0;
  const short *weights = plane->down->weights + (size_t)plane->made * taps;
  unsigned char *out = plane->out + (size_t)plane->made++ * width, last[WIDE];
  for (unsigned tap = 0; tap < taps; tap++) plane->window[tap] = plane->kept + (first + tap) % taps * plane->stride;
  for (; at + WIDE <= width; at += WIDE) down(plane, weights, at, out + at);
  if (at == width) return;
  down(plane, weights, at, last);
  memcpy(out + at, last, width - at);
}

/* Takes the next row of samples, which begins with the box's first sample and can be read for as many bytes beyond its
 * end as the filter has taps. Makes all rows of results that it completes. */
static void feed(struct plane *plane, const unsigned char *row) {
  const struct filter *filter = plane->down;
  across(plane->across, row, plane->kept + plane->fed % filter->taps * plane->stride);
  plane->fed++;
  while (plane->made < filter->count &&
         (plane->fed == plane->rows || filter->first[plane->made] + filter->taps <= plane->fed))
    make_row(plane);
}

#endif
