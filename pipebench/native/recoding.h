/* Codes the coefficients of a JPEG again, with restart markers and tables of its own, in two passes over its bits.
 *
 * What is stored between two markers does not depend on where markers stand, but for the first DC value of each
 * component. So no block has to be put together: the symbols are read once, counted and noted, and written with other
 * codes. Dummy blocks at the borders are written as they were.
 *
 * Only what is as it should be to the last bit is coded again; all else is left to the caller, who has libjpeg for it.
 */

#ifndef RECODING_H
#define RECODING_H

#include <stdint.h>
#include <stdlib.h>

#include "huffman.h"
#include "outline.h"
#include "reading.h" /* for libjpeg's blocks */

enum {
  TABLES = 4,
  LARGEST_DC = 11,        /* bits of a DC value or of a difference of two, as in libjpeg's encoder */
  LARGEST_AC = 10,
  LARGEST_FILE = 1 << 28, /* bytes: so that no count overflows */
  BLOCKS_IN_MCU = 10,     /* as in libjpeg */
  BLOCK_ROOM = 512,       /* bytes: more than a block can take */
  END_OF_BLOCK = 0x00,
  SIXTEEN_ZEROS = 0xF0
};

#define LAST_OF_BLOCK 0x80000000u

/* A file that is coded again. For each block, `notes` has its DC value, then a note for each AC symbol: its symbol << 16
 * | its value bits, and LAST_OF_BLOCK. */
struct recoding {
  struct outline outline;
  const unsigned char *data, *end, *scan; /* the contents of its SOS segment */
  unsigned columns, rows, interval, blocks;
  unsigned char component[BLOCKS_IN_MCU], dc_table[3], ac_table[3]; /* of the blocks of an MCU, and as they are read */
  unsigned char dc_written[3], ac_written[3];
  struct table dc[TABLES], ac[TABLES], new_dc[TABLES], new_ac[TABLES];
  uint32_t *notes;
  unsigned char *plain; /* what is read or written between two markers, without stuffing */
  size_t room; /* of `plain` */
  const unsigned char *rest; /* what follows the end of the image */
};

/* Reads the tables of a DHT segment. */
static int read_tables(struct recoding *it, const unsigned char *at, size_t bytes) {
  for (size_t count = 0; bytes > 0; at += 17 + count, bytes -= 17 + count) {
    if (bytes < 17 || (at[0] & 0xEF) >= TABLES) return 0;
    int is_dc = (at[0] & 0x10) == 0;
    struct table *table = is_dc ? &it->dc[at[0] & 15] : &it->ac[at[0] & 15];
    count = 0;
    for (int size = 1; size <= 16; size++) count += table->bits[size] = at[size];
    if (count > 256 || bytes < 17 + count) return 0;
    memcpy(table->values, at + 17, count);
    for (size_t index = 0; index < count; index++)
      if (is_dc && table->values[index] > 15) return 0; /* libjpeg refuses it */
    if (!derive(table)) return 0;
  }
  return 1;
}

/* Reads the header, all tables, and which of them each component has. */
static int open_recoding(struct recoding *it, const unsigned char *data, size_t bytes, unsigned interval) {
  if (!read_outline(data, bytes, &it->outline)) return 0;
  const struct outline *outline = &it->outline;
  it->data = data;
  it->end = data + bytes;
  it->scan = outline->coded - (4 + 2 * outline->components);
  it->columns = parts_of(outline->width, outline->mcu_width);
  it->rows = parts_of(outline->height, outline->mcu_height);
  it->interval = interval;
  for (const unsigned char *at = data + 2; at < it->scan - 4; at += 2 + two_bytes(at + 2))
    if (at[1] == DHT && !read_tables(it, at + 4, two_bytes(at + 2) - 2u)) return 0;
  for (unsigned index = 0; index < outline->components; index++) {
    const unsigned char *chosen = it->scan + 1 + 2 * index, *component = outline->frame + 6 + 3 * index;
    unsigned count = outline->components == 1 ? 1u : (unsigned)(component[1] >> 4) * (component[1] & 15);
    it->dc_table[index] = chosen[1] >> 4;
    it->ac_table[index] = chosen[1] & 15;
    if (chosen[0] != component[0] || it->dc_table[index] >= TABLES || it->ac_table[index] >= TABLES) return 0;
    if (!it->dc[it->dc_table[index]].is_there || !it->ac[it->ac_table[index]].is_there) return 0;
    if (it->blocks + count > BLOCKS_IN_MCU) return 0;
    while (count-- > 0) it->component[it->blocks++] = (unsigned char)index;
  }
  return 1;
}

/* Copies coded data up to the next marker and takes the stuffing out. Returns where the marker stands, or NULL. */
static const unsigned char *unstuff(const unsigned char *at, const unsigned char *end, struct recoding *it,
                                    struct bit_reader *reader) {
  unsigned char *out = it->plain;
  for (;;) {
    const unsigned char *found = memchr(at, 0xFF, (size_t)(end - at));
    if (found == NULL || end - found < 2) return NULL;
    size_t bytes = (size_t)(found - at) + (found[1] == 0);
    memcpy(out, at, bytes);
    out += bytes;
    at = found + 2;
    if (found[1] == 0) continue;
    memset(out, 0, READ_BEHIND);
    *reader = (struct bit_reader){it->plain, out, 0, 0};
    return found;
  }
}

/* Whether a symbol other than END_OF_BLOCK is one that libjpeg writes (NOTHING is none). */
static int is_usual(unsigned symbol) {
  unsigned size = symbol & 15;
  return symbol < 256 && size <= LARGEST_AC && (size > 0 || symbol == SIXTEEN_ZEROS);
}

/* Reads one block, notes it and counts its symbols. Returns the end of its notes, or NULL. `*dc` is the DC value of the
 * block before, `*base` the one from which this block is coded in the result. */
static uint32_t *read_block(struct recoding *it, struct bit_reader *from, unsigned component, int *dc, int *base,
                            uint32_t *note) {
  const struct table *table = &it->ac[it->ac_table[component]];
  uint32_t *count = it->new_ac[it->ac_written[component]].count;
  struct bit_reader reader = *from; /* so that it can lie in registers */
  refill(&reader);
  uint32_t found = read_symbol(&reader, &it->dc[it->dc_table[component]]);
  if (found >> 16 > LARGEST_DC) return NULL;
  *dc += signed_value(found & 0xFFFF, found >> 16);
  int difference = *dc - *base;
  unsigned written = bits_of((unsigned)abs(difference));
  if (abs(*dc) >= 1 << LARGEST_DC || written > LARGEST_DC) return NULL;
  it->new_dc[it->dc_written[component]].count[written]++;
  *base = *dc;
  *note++ = (uint32_t)*dc;
  for (unsigned place = 0; place < DCTSIZE2 - 1;) {
    refill(&reader);
    found = read_symbol(&reader, table);
    unsigned symbol = found >> 16;
    if (symbol == END_OF_BLOCK) {
      count[symbol]++;
      *note++ = LAST_OF_BLOCK;
      break;
    }
    place += (symbol >> 4 & 15) + 1;
    if (!is_usual(symbol) || place >= DCTSIZE2) return NULL;
    count[symbol]++;
    *note++ = found | (place == DCTSIZE2 - 1 ? LAST_OF_BLOCK : 0);
  }
  *from = reader;
  return bits_left(from) < 0 ? NULL : note;
}

/* Reads all symbols, notes and counts them. */
static int read_all(struct recoding *it) {
  const unsigned char *at = it->outline.coded;
  struct bit_reader reader;
  unsigned mcus = it->columns * it->rows, theirs = it->outline.interval ? it->outline.interval : mcus;
  int dc[3], base[3] = {0, 0, 0};
  uint32_t *note = it->notes;
  for (unsigned mcu = 0; mcu < mcus; mcu++) {
    if (mcu % theirs == 0) {
      const unsigned char *marker = unstuff(at, it->end, it, &reader);
      unsigned due = mcus - mcu <= theirs ? EOI : RST0 + mcu / theirs % 8;
      if (marker == NULL || marker[1] != due) return 0;
      at = marker + 2;
      memset(dc, 0, sizeof dc);
    }
    if (mcu % it->interval == 0) memset(base, 0, sizeof base);
    for (unsigned index = 0; index < it->blocks; index++) {
      unsigned component = it->component[index];
      note = read_block(it, &reader, component, &dc[component], &base[component], note);
      if (note == NULL) return 0;
    }
    if ((mcu + 1) % theirs == 0 && bits_left(&reader) >= 8) return 0;
  }
  it->rest = at;
  return bits_left(&reader) < 8;
}

/* Fills the last byte with ones, copies all with stuffing behind `out`, and a marker. Returns its end, or NULL. */
static unsigned char *stuff(struct recoding *it, struct bit_writer *writer, unsigned marker, unsigned char *out,
                            const unsigned char *end) {
  if (writer->held > 0) put_bits(writer, 0xFF >> writer->held, 8 - writer->held);
  const unsigned char *at = it->plain, *last = writer->at;
  if (end - out < 2 * (last - at) + 2) return NULL;
  for (const unsigned char *found; (found = memchr(at, 0xFF, (size_t)(last - at))) != NULL; at = found + 1) {
    memcpy(out, at, (size_t)(found - at) + 1);
    out += found - at + 1;
    *out++ = 0;
  }
  memcpy(out, at, (size_t)(last - at));
  out += last - at;
  *out++ = 0xFF;
  *out++ = (unsigned char)marker;
  *writer = (struct bit_writer){it->plain, 0, 0};
  return out;
}

/* Writes a block from its notes. Returns the notes of the next. */
static const uint32_t *write_block(const struct recoding *it, struct bit_writer *to, unsigned component, int *base,
                                   const uint32_t *note) {
  struct bit_writer writer = *to; /* so that it can lie in registers */
  const struct table *dc = &it->new_dc[it->dc_written[component]], *ac = &it->new_ac[it->ac_written[component]];
  int value = (int)*note++, difference = value - *base;
  unsigned bits = bits_of((unsigned)abs(difference));
  *base = value;
  put_bits(&writer, dc->code[bits] | value_bits(difference, bits), dc->size[bits] + bits);
  for (uint32_t each = 0; !(each & LAST_OF_BLOCK);) {
    each = *note++;
    unsigned symbol = each >> 16 & 255;
    put_bits(&writer, ac->code[symbol] | (each & 0xFFFF), ac->size[symbol] + (symbol & 15));
  }
  *to = writer;
  return note;
}

/* Writes all blocks and their markers behind `out`. Returns the end, or NULL. */
static unsigned char *write_all(struct recoding *it, unsigned char *out, const unsigned char *end) {
  struct bit_writer writer = {it->plain, 0, 0};
  unsigned mcus = it->columns * it->rows;
  int base[3] = {0, 0, 0};
  const uint32_t *note = it->notes;
  for (unsigned mcu = 0; mcu < mcus && out != NULL; mcu++) {
    if (it->room - (size_t)(writer.at - it->plain) < BLOCKS_IN_MCU * BLOCK_ROOM) return NULL;
    for (unsigned index = 0; index < it->blocks; index++)
      note = write_block(it, &writer, it->component[index], &base[it->component[index]], note);
    if ((mcu + 1) % it->interval != 0 && mcu + 1 < mcus) continue;
    memset(base, 0, sizeof base);
    out = stuff(it, &writer, mcu + 1 < mcus ? RST0 + mcu / it->interval % 8 : EOI, out, end);
  }
  return out;
}

static unsigned char *put_table(unsigned char *out, const struct table *table, unsigned name) {
  unsigned count = 0;
  for (int size = 1; size <= 16; size++) count += table->bits[size];
  const unsigned char head[] = {0xFF, DHT, (unsigned char)((19 + count) >> 8), (unsigned char)(19 + count),
                                (unsigned char)name};
  memcpy(out, head, sizeof head);
  memcpy(out + 5, table->bits + 1, 16);
  memcpy(out + 21, table->values, count);
  return out + 21 + count;
}

/* Copies the header with another interval of markers and, unless they are kept, other tables. Returns its end. */
static unsigned char *write_header(const struct recoding *it, unsigned char *out, int keep_tables) {
  size_t bytes = 2;
  memcpy(out, it->data, bytes);
  out += bytes;
  for (const unsigned char *at = it->data + 2; at < it->scan - 4; at += bytes) {
    bytes = 2 + two_bytes(at + 2);
    if (at[1] == DRI || (at[1] == DHT && !keep_tables)) continue;
    memcpy(out, at, bytes);
    out += bytes;
  }
  for (unsigned name = 0; !keep_tables && name < least(2, it->outline.components); name++) {
    out = put_table(out, &it->new_dc[name], name);
    out = put_table(out, &it->new_ac[name], name | 0x10);
  }
  const unsigned char interval[] = {0xFF, DRI, 0, 4, (unsigned char)(it->interval >> 8), (unsigned char)it->interval};
  memcpy(out, interval, sizeof interval);
  out += sizeof interval;
  bytes = (size_t)(it->outline.coded - it->scan) + 4;
  memcpy(out, it->scan - 4, bytes);
  for (unsigned index = 0; index < it->outline.components; index++)
    out[6 + 2 * index] = (unsigned char)(it->dc_written[index] << 4 | it->ac_written[index]);
  return out + bytes;
}

/* Whether libjpeg found this block, by its notes. Returns the notes of the next, or NULL. */
static const uint32_t *same_block(const uint32_t *note, const JCOEF *block) {
  static const unsigned char order[DCTSIZE2] = { /* in which libjpeg stores what is coded in a zigzag */
      0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
      41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
      30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
  short zeros = 0;
  for (unsigned index = 0; index < DCTSIZE2; index++) zeros += block[index] == 0;
  unsigned place = 0, noted = (int)*note != 0;
  int other = block[0] ^ (int)*note++;
  for (uint32_t each = 0; !(each & LAST_OF_BLOCK);) {
    each = *note++;
    unsigned symbol = each >> 16 & 255, count = symbol & 15;
    if (symbol == END_OF_BLOCK) break;
    place += (symbol >> 4) + 1;
    other |= block[order[place]] ^ signed_value(each & 0xFFFF, count);
    noted += count != 0;
  }
  return other == 0 && noted + (unsigned)zeros == DCTSIZE2 ? note : NULL;
}

/* Chooses the tables: those of the source, or the best two, for the first component and for the others. */
static int choose_tables(struct recoding *it, int keep_tables) {
  for (unsigned name = 0; name < TABLES; name++) {
    struct table *dc = &it->new_dc[name], *ac = &it->new_ac[name];
    if (keep_tables) {
      if (!has_codes(&it->dc[name], dc->count) || !has_codes(&it->ac[name], ac->count)) return 0;
      *dc = it->dc[name];
      *ac = it->ac[name];
    } else if (name < least(2, it->outline.components) && !(optimise(dc) && optimise(ac))) {
      return 0;
    }
  }
  return 1;
}

static int make_room(struct recoding *it, size_t bytes) {
  unsigned long long most = (unsigned long long)it->columns * it->rows * it->blocks * DCTSIZE2;
  if (most > 8 * bytes) most = 8 * bytes; /* each note takes a bit or more to read */
  it->notes = malloc((most + DCTSIZE2 + 1) * sizeof *it->notes);
  it->room = bytes + bytes / 2 + BLOCKS_IN_MCU * BLOCK_ROOM;
  it->plain = malloc(it->room);
  return it->notes != NULL && it->plain != NULL;
}

/* Codes the file again with a marker after each `interval` MCUs. Returns the bytes written, or 0 if it is not a usual
 * file or `room` is too small: then the caller has to use libjpeg. `it` is empty; `close_recoding` frees what it has. */
static size_t recode(struct recoding *it, const unsigned char *data, size_t bytes, unsigned interval, int keep_tables,
                     unsigned char *out, size_t room) {
  if (interval == 0 || interval > 0xFFFF || bytes > LARGEST_FILE || !open_recoding(it, data, bytes, interval)) return 0;
  for (unsigned index = 0; index < it->outline.components; index++) {
    it->dc_written[index] = keep_tables ? it->dc_table[index] : index > 0;
    it->ac_written[index] = keep_tables ? it->ac_table[index] : index > 0;
  }
  if (room < (size_t)(it->outline.coded - data) + 2 * TABLES * (21 + 256)) return 0;
  if (!make_room(it, bytes) || !read_all(it) || !choose_tables(it, keep_tables)) return 0;
  unsigned char *end = write_all(it, write_header(it, out, keep_tables), out + room);
  size_t rest = (size_t)(it->end - it->rest);
  if (end == NULL || (size_t)(out + room - end) < rest) return 0;
  memcpy(end, it->rest, rest);
  return (size_t)(end - out) + rest;
}

static void close_recoding(struct recoding *it) {
  if (it == NULL) return;
  free(it->notes);
  free(it->plain);
  free(it);
}

#endif
