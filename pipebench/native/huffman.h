/* Huffman codes of JPEG: reads symbols bit by bit, makes the best codes for counted symbols, writes bits.
 *
 * What is read and written has no stuffing, so a byte is a byte. A symbol stands for zeros and for the size of a value,
 * whose bits follow its code; both are read at once.
 */

#ifndef HUFFMAN_H
#define HUFFMAN_H

#include <stdint.h>
#include <string.h>

enum {
  FAST_BITS = 11,   /* codes no longer than this are found by one look */
  NO_SYMBOL = 256,  /* takes the code of all ones, which no symbol may have */
  READ_BEHIND = 512 /* bytes, zeros, that must lie behind what is read: a block may take so many before it is checked */
};

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
      if (code + 1 >= 1u << size || table->size[symbol] != 0) return 0; /* no code is all ones */
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

/* Whether each symbol that was counted has a code. */
static int has_codes(const struct table *table, const uint32_t *count) {
  for (unsigned symbol = 0; symbol < 256; symbol++)
    if (count[symbol] != 0 && table->size[symbol] == 0) return 0;
  return 1;
}

#endif
