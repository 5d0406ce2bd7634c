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

#include "outline.h"

enum {
  TABLES = 4,
  FAST_BITS = 11,        /* codes no longer than this are found by one look */
  NO_SYMBOL = 256,       /* takes the code of all ones, which no symbol may have */
  LARGEST_DC = 11,       /* bits of a DC value or of a difference of two, as in libjpeg's encoder */
  LARGEST_AC = 10,
  LARGEST_FILE = 1 << 28, /* bytes: so that no count overflows */
  BLOCKS_IN_MCU = 10,    /* as in libjpeg */
  BLOCK_ROOM = 512,      /* bytes: more than a block can take */
  END_OF_BLOCK = 0x00,
  SIXTEEN_ZEROS = 0xF0
};

#define LAST_OF_BLOCK 0x80000000u
#define NOTHING 0x40000000u

/* A Huffman table, for reading (`fast`, `largest`, `offset`) and for writing (`code`, `size`). */
struct table {
  int is_there;
  unsigned char bits[17], values[256];
  uint32_t fast[1 << FAST_BITS]; /* what `found_code` makes of the code that these bits begin with; 0 if it is longer */
  int32_t largest[17], offset[17];
  unsigned char size[256]; /* of each symbol's code */
  uint32_t code[256];      /* with room for the value bits behind it */
  uint32_t count[256]; /* how often each symbol is to be written */
};

/* Reads bits from bytes without stuffing. The next bits are the highest of `hold`, which has at least `left` of them.
 * (Fabian Giesen, "Reading bits in far too many ways", part 2, variant 4.) */
struct bit_reader {
  const unsigned char *at, *end;
  uint64_t hold;
  unsigned left;
};

/* Collects bits as bytes without stuffing. `hold` has the last `held` bits, fewer than 8, in its highest. */
struct bit_writer {
  unsigned char *at;
  uint64_t hold;
  unsigned held;
};

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

/* Eight bytes as a number whose highest byte is the first of them. */
static uint64_t in_order(uint64_t bytes) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return __builtin_bswap64(bytes);
#else
  return bytes;
#endif
}

static unsigned bits_of(unsigned value) { return value == 0 ? 0 : 32 - (unsigned)__builtin_clz(value); }

/* A symbol << 16, the bits of its code << 8, and the bits of its code and its value. */
static uint32_t found_code(unsigned symbol, unsigned size) { return symbol << 16 | size << 8 | (size + (symbol & 15)); }

/* Fills the parts of a table that are derived from `bits` and `values`. Returns 0 for codes that libjpeg would refuse. */
static int derive(struct table *table) {
  unsigned code = 0, index = 0;
  memset(table->fast, 0, sizeof table->fast);
  memset(table->size, 0, sizeof table->size);
  for (int size = 1; size <= 16; size++, code <<= 1) {
    table->offset[size] = (int32_t)index - (int32_t)code;
    for (unsigned each = 0; each < table->bits[size]; each++, code++, index++) {
      unsigned symbol = table->values[index];
      if (code >= 1u << size || table->size[symbol] != 0) return 0;
      table->code[symbol] = (uint32_t)code << (symbol & 15);
      table->size[symbol] = (unsigned char)size;
      if (size <= FAST_BITS)
        for (unsigned entry = 0; entry < 1u << (FAST_BITS - size); entry++)
          table->fast[(code << (FAST_BITS - size)) + entry] = found_code(symbol, (unsigned)size);
    }
    table->largest[size] = table->bits[size] ? (int32_t)code - 1 : -1;
  }
  table->is_there = 1;
  return 1;
}

/* Reads the tables of a DHT segment. */
static int read_tables(struct recoding *it, const unsigned char *at, size_t bytes) {
  for (size_t count = 0; bytes > 0; at += 17 + count, bytes -= 17 + count) {
    if (bytes < 17 || (at[0] & 0xEF) >= TABLES) return 0;
    struct table *table = at[0] & 0x10 ? &it->ac[at[0] & 15] : &it->dc[at[0] & 15];
    count = 0;
    for (int size = 1; size <= 16; size++) count += table->bits[size] = at[size];
    if (count > 256 || bytes < 17 + count) return 0;
    memcpy(table->values, at + 17, count);
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
    memset(out, 0, BLOCK_ROOM);
    *reader = (struct bit_reader){it->plain, out, 0, 0};
    return found;
  }
}

/* Has 56 bits or more ready. */
static void refill(struct bit_reader *reader) {
  uint64_t next;
  memcpy(&next, reader->at, sizeof next);
  reader->hold |= in_order(next) >> reader->left;
  reader->at += (63 - reader->left) >> 3;
  reader->left |= 56;
}

/* Reads a symbol and its value bits. Returns a note of both, or NOTHING if there is no such code. */
static uint32_t read_symbol(struct bit_reader *reader, const struct table *table) {
  uint32_t found = table->fast[reader->hold >> (64 - FAST_BITS)];
  for (unsigned size = FAST_BITS + 1; found == 0; size++) {
    if (size > 16) return NOTHING;
    int32_t code = (int32_t)(reader->hold >> (64 - size));
    if (code <= table->largest[size]) found = found_code(table->values[code + table->offset[size]], size);
  }
  unsigned both = found & 255, size = found >> 8 & 255;
  uint32_t value = (uint32_t)(reader->hold << size >> 1 >> (63 - (both - size)));
  reader->hold <<= both;
  reader->left -= both;
  return (found & 0xFF0000) | value;
}

/* How many bits have not been read; below zero if more were read than there are. */
static long long bits_left(const struct bit_reader *reader) {
  return 8LL * (reader->end - reader->at) + reader->left;
}

/* The number that `count` value bits stand for: below zero if the first of them is 0. */
static int signed_value(unsigned bits, unsigned count) {
  return (int)bits + (((int)(bits << 1 >> count) - 1) & (1 - (1 << count)));
}

static unsigned value_bits(int value, unsigned count) {
  return (unsigned)(value < 0 ? value - 1 : value) & ((1u << count) - 1);
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

/* The symbols of a table with their counts, while its codes are made: chains of symbols that share a branch. */
struct chains {
  uint32_t count[NO_SYMBOL + 1];
  int symbol[NO_SYMBOL + 1], next[NO_SYMBOL + 1], many;
  unsigned size[NO_SYMBOL + 1];
};

/* The rarest chain but `other`; of equals the last. */
static int rarest(const struct chains *chains, int other) {
  int found = -1;
  for (int index = 0; index < chains->many; index++)
    if (index != other && chains->count[index] != 0 && (found < 0 || chains->count[index] <= chains->count[found]))
      found = index;
  return found;
}

static int lengthen(struct chains *chains, int index) {
  chains->size[index]++;
  while (chains->next[index] >= 0) chains->size[index = chains->next[index]]++;
  return index;
}

/* The best codes of at most 16 bits for the counts of `table` (ITU-T T.81, K.2), as libjpeg makes them. */
static int optimise(struct table *table) {
  struct chains chains = {.many = 0};
  unsigned sizes[NO_SYMBOL + 2] = {0};
  for (int symbol = 0; symbol <= NO_SYMBOL; symbol++) {
    uint32_t count = symbol == NO_SYMBOL ? 1 : table->count[symbol]; /* so that no code is all ones */
    if (count == 0) continue;
    chains.count[chains.many] = count;
    chains.symbol[chains.many] = symbol;
    chains.next[chains.many++] = -1;
  }
  for (;;) {
    int one = rarest(&chains, -1), other = rarest(&chains, one);
    if (other < 0) break;
    chains.count[one] += chains.count[other];
    chains.count[other] = 0;
    chains.next[lengthen(&chains, one)] = other;
    lengthen(&chains, other);
  }
  for (int index = 0; index < chains.many; index++) sizes[chains.size[index]]++;
  for (int size = NO_SYMBOL; size > 16; size--)
    while (sizes[size] > 0) {
      int shorter = size - 2;
      while (sizes[shorter] == 0) shorter--;
      sizes[size] -= 2;
      sizes[size - 1]++;
      sizes[shorter + 1] += 2;
      sizes[shorter]--;
    }
  int longest = 16;
  while (longest > 0 && sizes[longest] == 0) longest--;
  sizes[longest]--; /* that of NO_SYMBOL */
  unsigned filled = 0;
  for (int size = 1; size <= 16; size++) table->bits[size] = (unsigned char)sizes[size];
  for (unsigned size = 1; (int)filled < chains.many - 1; size++)
    for (int index = 0; index < chains.many; index++)
      if (chains.size[index] == size && chains.symbol[index] != NO_SYMBOL)
        table->values[filled++] = (unsigned char)chains.symbol[index];
  return derive(table);
}

static void put_bits(struct bit_writer *writer, unsigned bits, unsigned count) {
  writer->held += count;
  writer->hold |= (uint64_t)bits << 1 << (63 - writer->held);
  uint64_t next = in_order(writer->hold);
  memcpy(writer->at, &next, sizeof next);
  writer->at += writer->held >> 3;
  writer->hold <<= writer->held & ~7u;
  writer->held &= 7;
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

/* Whether each symbol that was counted has a code. */
static int has_codes(const struct table *table, const uint32_t *count) {
  for (unsigned symbol = 0; symbol < 256; symbol++)
    if (count[symbol] != 0 && table->size[symbol] == 0) return 0;
  return 1;
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
