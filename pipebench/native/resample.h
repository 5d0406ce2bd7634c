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
  LANES = 8,       /* samples that are summed at once */
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

/* Makes the filter from `axis` to `count` results, in reverse order if `flip`. */
static void make_filter(struct jpeg_decompress_struct *info, struct filter *filter, const struct axis *axis,
                        unsigned count, int flip) {
  unsigned most = 0, slots = filled_up(count, LANES), first;
  for (unsigned index = 0; index < count; index++) {
    unsigned taps = window(axis, index, &first);
    if (taps > most) most = taps;
  }
  filter->count = count;
  filter->taps = filled_up(most, LANES);
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

/* Four sums in one: the sum of the four numbers of each. */
static __m128i sums_of(const __m128i sum[4]) {
  __m128i one = _mm_add_epi32(_mm_unpacklo_epi32(sum[0], sum[1]), _mm_unpackhi_epi32(sum[0], sum[1]));
  __m128i two = _mm_add_epi32(_mm_unpacklo_epi32(sum[2], sum[3]), _mm_unpackhi_epi32(sum[2], sum[3]));
  return _mm_add_epi32(_mm_unpacklo_epi64(one, two), _mm_unpackhi_epi64(one, two));
}

/* Four results along a row. */
static __m128i four_across(const struct filter *filter, const unsigned char *row, unsigned at) {
  const __m128i zero = _mm_setzero_si128();
  __m128i sum[4];
  for (unsigned lane = 0; lane < 4; lane++) {
    const unsigned char *samples = row + filter->first[at + lane];
    const short *weights = filter->weights + (size_t)(at + lane) * filter->taps;
    sum[lane] = zero;
    for (unsigned tap = 0; tap < filter->taps; tap += LANES) {
      __m128i some = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(samples + tap)), zero);
      sum[lane] = _mm_add_epi32(sum[lane], _mm_madd_epi16(some, _mm_loadu_si128((const __m128i *)(weights + tap))));
    }
  }
  return sums_of(sum);
}

/* Eight sums to bytes: rounded, shifted, and kept between 0 and 255. */
static __m128i rounded(__m128i low, __m128i high, int bits) {
  const __m128i half = _mm_set1_epi32(1 << bits >> 1), shift = _mm_cvtsi32_si128(bits);
  low = _mm_sra_epi32(_mm_add_epi32(low, half), shift);
  high = _mm_sra_epi32(_mm_add_epi32(high, half), shift);
  return _mm_packus_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128());
}

/* Eight results along a row, from result `at` on. */
static void across(const struct filter *filter, const unsigned char *row, unsigned at, unsigned char *out) {
  __m128i low = four_across(filter, row, at), high = four_across(filter, row, at + 4);
  _mm_storel_epi64((__m128i *)out, rounded(low, high, filter->bits));
}

/* Eight results of one row of results, from column `at` on. */
static void down(const struct plane *plane, unsigned first, const short *weights, unsigned at, unsigned char *out) {
  const __m128i zero = _mm_setzero_si128();
  unsigned taps = plane->down->taps;
  __m128i low = zero, high = zero;
  for (unsigned tap = 0; tap < taps; tap += 2) { /* two rows at once */
    const unsigned char *one = plane->kept + (first + tap) % taps * plane->stride + at;
    const unsigned char *two = plane->kept + (first + tap + 1) % taps * plane->stride + at;
    __m128i both = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)one), _mm_loadl_epi64((const __m128i *)two));
    __m128i pair = _mm_unpacklo_epi16(_mm_set1_epi16(weights[tap]), _mm_set1_epi16(weights[tap + 1]));
    low = _mm_add_epi32(low, _mm_madd_epi16(_mm_unpacklo_epi8(both, zero), pair));
    high = _mm_add_epi32(high, _mm_madd_epi16(_mm_unpackhi_epi8(both, zero), pair));
  }
  _mm_storel_epi64((__m128i *)out, rounded(low, high, plane->down->bits));
}

#else

static unsigned char rounded(int sum, int bits) {
  sum = (sum + (1 << bits >> 1)) >> bits;
  return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void across(const struct filter *filter, const unsigned char *row, unsigned at, unsigned char *out) {
  for (unsigned lane = 0; lane < LANES; lane++) {
    const unsigned char *samples = row + filter->first[at + lane];
    const short *weights = filter->weights + (size_t)(at + lane) * filter->taps;
    int sum = 0;
    for (unsigned tap = 0; tap < filter->taps; tap++) sum += samples[tap] * weights[tap];
    out[lane] = rounded(sum, filter->bits);
  }
}

static void down(const struct plane *plane, unsigned first, const short *weights, unsigned at, unsigned char *out) {
  unsigned taps = plane->down->taps;
  int sums[LANES] = {0};
  for (unsigned tap = 0; tap < taps; tap++) {
    const unsigned char *row = plane->kept + (first + tap) % taps * plane->stride + at;
    for (unsigned lane = 0; lane < LANES; lane++) sums[lane] += row[lane] * weights[tap];
  }
  for (unsigned lane = 0; lane < LANES; lane++) out[lane] = rounded(sums[lane], plane->down->bits);
}

#endif

/* Prepares a plane of so many rows. `out` gets its results. */
static void open_plane(struct jpeg_decompress_struct *info, struct plane *plane, const struct filter *across,
                       const struct filter *down, unsigned rows, unsigned char *out) {
  *plane = (struct plane){across, down, rows, 0, 0, filled_up(across->count, LANES), NULL, out};
  plane->kept = reserve(info, plane->stride * down->taps);
}

/* Makes the next row of results of the rows that are kept. */
static void make_row(struct plane *plane) {
  unsigned width = plane->across->count, first = plane->down->first[plane->made];
  const short *weights = plane->down->weights + (size_t)plane->made * plane->down->taps;
  unsigned char *out = plane->out + (size_t)plane->made++ * width, last[LANES];
  unsigned at = 0;
  for (; at + LANES <= width; at += LANES) down(plane, first, weights, at, out + at);
  if (at == width) return;
  down(plane, first, weights, at, last);
  memcpy(out + at, last, width - at);
}

/* Takes the next row of samples, which begins with the box's first sample and can be read for as many bytes beyond its
 * end as the filter has taps. Makes all rows of results that it completes. */
static void feed(struct plane *plane, const unsigned char *row) {
  const struct filter *filter = plane->down;
  unsigned char *kept = plane->kept + plane->fed % filter->taps * plane->stride;
  for (unsigned at = 0; at < plane->across->count; at += LANES) across(plane->across, row, at, kept + at);
  plane->fed++;
  while (plane->made < filter->count &&
         (plane->fed == plane->rows || filter->first[plane->made] + filter->taps <= plane->fed))
    make_row(plane);
}

#endif
