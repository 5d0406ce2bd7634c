/* What the header of a JPEG says, read without libjpeg: the size of its blocks, and where its coded data begins.
 *
 * Only usual files are read: sequential, one scan, 8 bits, grey or three components. All others are left to the caller.
 */

#ifndef OUTLINE_H
#define OUTLINE_H

#include <stddef.h>
#include <string.h>

enum {
  SIDE_LIMIT = 65500, /* of libjpeg, in pixels */
  SOF0 = 0xC0,
  SOF1 = 0xC1,
  DHT = 0xC4,
  RST0 = 0xD0,
  SOI = 0xD8,
  EOI = 0xD9,
  SOS = 0xDA,
  DQT = 0xDB,
  DRI = 0xDD,
  APP0 = 0xE0, /* JFIF: says that three components are YCbCr */
  APP14 = 0xEE, /* Adobe: says which they are */
  APP15 = 0xEF,
  COM = 0xFE
};

/* What the header of a JPEG says, as far as the grid of its stretches needs it. Sizes of MCUs are in pixels. */
struct outline {
  const unsigned char *frame; /* the contents of its SOF segment */
  const unsigned char *coded; /* where its entropy-coded data begins */
  unsigned width, height, components, across, down, mcu_width, mcu_height, interval;
  unsigned long long blocks; /* of 8 by 8 samples, of all components */
};

static unsigned two_bytes(const unsigned char *at) { return (unsigned)at[0] << 8 | at[1]; }

static unsigned parts_of(unsigned whole, unsigned part) { return (whole + part - 1) / part; }

static unsigned least(unsigned one, unsigned other) { return one < other ? one : other; }

/* Reads the contents of the SOF segment: precision, height, width, components with their sampling factors. */
static int read_frame(struct outline *outline, const unsigned char *contents, size_t bytes) {
  if (outline->frame != NULL || bytes < 6 || contents[0] != 8) return 0;
  outline->frame = contents;
  outline->height = two_bytes(contents + 1);
  outline->width = two_bytes(contents + 3);
  outline->components = contents[5];
  if (outline->width == 0 || outline->height == 0 || outline->width > SIDE_LIMIT || outline->height > SIDE_LIMIT)
    return 0;
  if ((outline->components != 1 && outline->components != 3) || bytes != 6 + 3 * outline->components) return 0;
  outline->across = outline->down = 1;
  for (unsigned index = 0; index < outline->components; index++) {
    unsigned across = contents[7 + 3 * index] >> 4, down = contents[7 + 3 * index] & 15;
    if (across < 1 || across > 4 || down < 1 || down > 4) return 0;
    if (outline->components == 1) break; /* the only component of a scan is coded block by block, whatever it claims */
    if (across > outline->across) outline->across = across;
    if (down > outline->down) outline->down = down;
  }
  outline->mcu_width = 8 * outline->across;
  outline->mcu_height = 8 * outline->down;
  for (unsigned index = 0; index < outline->components; index++) {
    unsigned factors = outline->components == 1 ? 0x11 : contents[7 + 3 * index];
    outline->blocks += (unsigned long long)parts_of(outline->width * (factors >> 4), outline->mcu_width) *
                       parts_of(outline->height * (factors & 15), outline->mcu_height);
  }
  return 1;
}

/* Whether the contents of the SOS segment announce all components and all their coefficients. */
static int is_only_scan(const struct outline *outline, const unsigned char *contents, size_t bytes) {
  return outline->frame != NULL && bytes == 4 + 2 * outline->components && contents[0] == outline->components &&
         contents[bytes - 3] == 0 && contents[bytes - 2] == 63 && contents[bytes - 1] == 0;
}

/* Reads the segments of a header up to its first scan. Returns 0 for anything that is not usual. */
static int read_outline(const unsigned char *data, size_t bytes, struct outline *outline) {
  memset(outline, 0, sizeof *outline);
  if (bytes < 4 || data[0] != 0xFF || data[1] != SOI) return 0;
  for (size_t at = 2; bytes - at >= 4;) {
    unsigned marker = data[at + 1];
    size_t length = two_bytes(data + at + 2);
    const unsigned char *contents = data + at + 4;
    if (data[at] != 0xFF || length < 2 || length > bytes - at - 2) return 0;
    if (marker == SOF0 || marker == SOF1) {
      if (!read_frame(outline, contents, length - 2)) return 0;
    } else if (marker == DRI) {
      if (length != 4) return 0;
      outline->interval = two_bytes(contents);
    } else if (marker == SOS) {
      outline->coded = contents + length - 2;
      return is_only_scan(outline, contents, length - 2);
    } else if (marker != DHT && marker != DQT && marker != COM && (marker < APP0 || marker > APP15)) {
      return 0;
    }
    at += 2 + length;
  }
  return 0;
}

#endif
