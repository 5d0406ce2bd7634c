/* Makes a smaller JPEG of the part of a JPEG that a box touches, by its restart markers, without decoding anything.
 *
 * Between two restart markers lies a stretch: so many MCUs (the blocks of 8 to 32 pixels that a file is coded in) that
 * decode on their own. If stretches do not run over the end of a row, they tile the image like a grid. The stretches
 * that a box touches, one after the other behind a header with a smaller size, are a JPEG of that part.
 *
 * Only files whose every byte up to the last stretch is as it should be are used: sequential, one scan, 8 bits, grey
 * or three components, a marker after each stretch with the number that is due. All others are left to the caller.
 */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "outline.h"
#include "reading.h" /* for its limit */

struct box { /* in pixels */
  unsigned left, top, width, height;
};

/* Stretches of a grid: those of rows `first_row` to before `end_row`, and of columns likewise. */
struct grid {
  unsigned columns, rows, first_column, end_column, first_row, end_row, stretch_width, stretch_height;
};

struct stretch {
  const unsigned char *begin;
  size_t bytes;
};

/* A JPEG that was put together, and the box within it. `data` belongs to the caller, who frees it. */
struct part {
  unsigned char *data;
  size_t bytes;
  struct box box;
};

/* Divides the image into stretches. Returns 0 if it has no markers, or if its stretches run over the ends of rows. */
static int make_grid(const struct outline *outline, struct grid *grid) {
  unsigned row = parts_of(outline->width, outline->mcu_width), interval = outline->interval;
  if (interval == 0 || (interval < row ? row % interval : interval % row) != 0) return 0;
  grid->columns = interval < row ? row / interval : 1;
  unsigned rows_each = interval < row ? 1 : interval / row;
  grid->rows = parts_of(parts_of(outline->height, outline->mcu_height), rows_each);
  grid->stretch_width = outline->mcu_width * (row / grid->columns);
  grid->stretch_height = outline->mcu_height * rows_each;
  return 1;
}

/* Widens `begin` to `end` by what upsampling needs beside it: it mixes neighbouring samples of a component, so one
 * sample on each side; and it mixes them only in rows of more than two, so four in all. A sample of a component that
 * is `factor` times as coarse as the image, decoded at 1 / denominator, has factor * denominator pixels. */
static void widen(unsigned *begin, unsigned *end, unsigned limit, unsigned factor, unsigned denominator) {
  unsigned sample = factor * denominator;
  *begin = *begin > sample ? (*begin - sample) / denominator * denominator : 0;
  *end = least(parts_of(*end + sample, denominator) * denominator, limit);
  if (*end - *begin < 4 * sample) *end = least(*begin + 4 * sample, limit);
  if (*end - *begin < 4 * sample) *begin = *end > 4 * sample ? *end - 4 * sample : 0;
}

/* Notes which stretches a decode of `box` at 1 / denominator needs. The box lies inside the image. */
static void touch(const struct outline *outline, struct box box, unsigned denominator, struct grid *grid) {
  unsigned left = box.left, right = box.left + box.width, top = box.top, bottom = box.top + box.height;
  widen(&left, &right, outline->width, outline->across, denominator);
  widen(&top, &bottom, outline->height, outline->down, denominator);
  grid->first_column = left / grid->stretch_width;
  grid->end_column = parts_of(right, grid->stretch_width);
  grid->first_row = top / grid->stretch_height;
  grid->end_row = parts_of(bottom, grid->stretch_height);
}

static size_t touched(const struct grid *grid) {
  return (size_t)(grid->end_column - grid->first_column) * (grid->end_row - grid->first_row);
}

/* Where the next marker begins; NULL if there is none. A byte 0xFF that is data is followed by a zero. */
static const unsigned char *next_marker(const unsigned char *at, const unsigned char *end) {
  while ((at = memchr(at, 0xFF, (size_t)(end - at))) != NULL && end - at >= 2) {
    if (at[1] != 0) return at;
    at += 2;
  }
  return NULL;
}

/* Finds the stretches of `grid` in the data from `at` on. Returns 0 if a marker up to the last is not the one due. */
static int find_stretches(const unsigned char *at, const unsigned char *end, const struct grid *grid,
                          struct stretch *found) {
  unsigned number = 0;
  for (unsigned row = 0; row < grid->end_row; row++)
    for (unsigned column = 0; column < grid->columns; column++) {
      int last = row == grid->rows - 1 && column == grid->columns - 1;
      const unsigned char *marker = next_marker(at, end);
      if (marker == NULL || marker[1] != (last ? EOI : RST0 + number)) return 0;
      if (row >= grid->first_row && column >= grid->first_column && column < grid->end_column)
        *found++ = (struct stretch){at, (size_t)(marker - at)};
      if (row == grid->end_row - 1 && column == grid->end_column - 1) return 1;
      at = marker + 2;
      number = (number + 1) % 8;
    }
  return 0;
}

/* Copies the segments that decide what the pixels are, with the size changed. Returns the end of what was written. */
static unsigned char *copy_header(const unsigned char *data, const struct outline *outline, unsigned width,
                                  unsigned height, unsigned char *out) {
  *out++ = 0xFF, *out++ = SOI;
  for (const unsigned char *at = data + 2; at < outline->coded;) {
    unsigned marker = at[1], length = 2 + two_bytes(at + 2);
    if (marker < APP0 || marker == APP0 || marker == APP14) {
      memcpy(out, at, length);
      if (at + 4 == outline->frame) {
        out[5] = height >> 8, out[6] = height & 255;
        out[7] = width >> 8, out[8] = width & 255;
      }
      out += length;
    }
    at += length;
  }
  return out;
}

static unsigned char *copy_stretches(const struct stretch *found, size_t count, unsigned char *out) {
  for (size_t index = 0; index < count; index++) {
    memcpy(out, found[index].begin, found[index].bytes);
    out += found[index].bytes;
    *out++ = 0xFF, *out++ = index == count - 1 ? EOI : RST0 + index % 8;
  }
  return out;
}

/* Puts the stretches of `grid` together. Returns 0 if they are not found, or if there is no memory. */
static int assemble(const unsigned char *data, size_t bytes, const struct outline *outline, const struct grid *grid,
                    struct box box, struct part *part) {
  size_t count = touched(grid), total = (size_t)(outline->coded - data);
  struct stretch *found = malloc(count * sizeof *found);
  if (found == NULL) return 0;
  part->data = NULL;
  if (find_stretches(outline->coded, data + bytes, grid, found)) {
    for (size_t index = 0; index < count; index++) total += found[index].bytes + 2;
    part->data = malloc(total);
  }
  if (part->data != NULL) {
    unsigned left = grid->first_column * grid->stretch_width, top = grid->first_row * grid->stretch_height;
    unsigned right = least(grid->end_column * grid->stretch_width, outline->width);
    unsigned bottom = least(grid->end_row * grid->stretch_height, outline->height);
    unsigned char *end = copy_header(data, outline, right - left, bottom - top, part->data);
    part->bytes = (size_t)(copy_stretches(found, count, end) - part->data);
    part->box = (struct box){box.left - left, box.top - top, box.width, box.height};
  }
  free(found);
  return part->data != NULL;
}

/* Makes the smaller JPEG that a decode of `box` at 1 / denominator needs. Returns 0 if that cannot be done, or if it
 * saves less than a sixteenth of what there is to read: up to the last row of the box, or of the image if `whole`. */
static int cut_out(const unsigned char *data, size_t bytes, struct box box, unsigned denominator, int whole,
                   struct part *part) {
  struct outline outline;
  struct grid grid;
  if (!read_outline(data, bytes, &outline) || !make_grid(&outline, &grid)) return 0;
  if ((unsigned long long)outline.width * outline.height > PIXEL_LIMIT || outline.blocks > 8ULL * bytes) return 0;
  if (box.left > outline.width || box.width > outline.width - box.left || box.top > outline.height ||
      box.height > outline.height - box.top)
    return 0;
  touch(&outline, box, denominator, &grid);
  size_t otherwise = (size_t)grid.columns * (whole ? grid.rows : grid.end_row);
  if (touched(&grid) >= otherwise - otherwise / 16 || touched(&grid) > bytes / 2) return 0;
  return assemble(data, bytes, &outline, &grid, box, part);
}
