/* Decodes many boxes of each file named on the command line, resizes them in a batch, cuts them out, and packs the file,
 * for a sanitizer or valgrind to watch. See region_sanitize.sh. A pixel that was never written, or written from memory that never was,
 * decides a branch here, so that valgrind reports it. */

#include <stdlib.h>

#include "../pipebench/native/pack.c"
#include "../pipebench/native/region.c"

static unsigned long long state;

static unsigned draw(unsigned below) { /* xorshift64 (Marsaglia 2003) */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (unsigned)(state % below);
}

static unsigned char *contents(const char *name, unsigned long *bytes) {
  FILE *file = fopen(name, "rb");
  if (file == NULL) exit(2);
  fseek(file, 0, SEEK_END);
  *bytes = (unsigned long)ftell(file);
  rewind(file);
  unsigned char *data = malloc(*bytes ? *bytes : 1); /* exactly so large that reading beyond its end is seen */
  if (data == NULL || fread(data, 1, *bytes, file) != *bytes) exit(2);
  fclose(file);
  return data;
}

static unsigned decoded, refused, bright, resized, streamed, packed;

/* Packs the file, and reads each of the bytes that were written. */
static void pack_one(const unsigned char *data, unsigned long bytes) {
  char message[MESSAGE_BYTES];
  unsigned long room = bytes + bytes / 2 + 65536, written = 0;
  unsigned char *out = malloc(room);
  if (out == NULL) exit(2);
  if (pack_file(data, bytes, 8u << draw(5), (int)draw(2), out, room, &written, message) == DONE) packed++;
  for (unsigned long index = 0; index < written; index++)
    if (out[index] > 127) bright++;
  free(out);
}

/* Puts together the smaller JPEG of the box, and reads each of its bytes. */
static void stream_one(const unsigned char *data, unsigned long bytes, unsigned left, unsigned top, unsigned width,
                       unsigned height) {
  unsigned char *stream;
  unsigned long made = region_stream(data, bytes, &left, &top, width, height, &stream);
  if (made == 0) return;
  streamed++;
  for (unsigned long index = 0; index < made; index++)
    if (stream[index] > 127) bright++;
  region_free(stream);
}

/* Resizes the box twice in one batch, with and without a mirror, and reads each byte of both where both succeed. */
static void resize_one(const unsigned char *data, unsigned long bytes, unsigned left, unsigned top, unsigned width,
                       unsigned height) {
  char message[MESSAGE_BYTES];
  unsigned out_width = 1 + draw(40), out_height = 1 + draw(40), failed;
  struct job job = {data, bytes, left, top, width, height, 1u << draw(4), 0}, jobs[2] = {job, job};
  jobs[1].flip = 1;
  size_t room = (size_t)2 * 3 * out_width * out_height;
  unsigned char *out = malloc(room);
  if (out == NULL) exit(2);
  if (region_batch(jobs, 2, out_width, out_height, (int)draw(2), out, &failed, message) == DONE) {
    resized++;
    for (size_t index = 0; index < room; index++)
      if (out[index] > 127) bright++;
  }
  free(out);
}

static void decode_one(const unsigned char *data, unsigned long bytes, unsigned image_width, unsigned image_height) {
  char message[MESSAGE_BYTES];
  unsigned denominator = 1u << draw(4);
  unsigned width = 1 + draw(image_width), height = 1 + draw(image_height);
  unsigned left = draw(image_width - width + 1), top = draw(image_height - height + 1);
  size_t columns = (left + width - 1) / denominator + 1 - left / denominator;
  size_t rows = (top + height - 1) / denominator + 1 - top / denominator;
  unsigned char *out = malloc(columns * rows * 3);
  if (out == NULL) exit(2);
  if (region_decode(data, bytes, left, top, width, height, denominator, out, message) == DONE) {
    decoded++;
    for (size_t index = 0; index < columns * rows * 3; index++)
      if (out[index] > 127) bright++;
  } else {
    refused++;
  }
  free(out);
  stream_one(data, bytes, left, top, width, height);
  resize_one(data, bytes, left, top, width, height);
}

int main(int count, char **names) {
  for (int index = 1; index < count; index++) {
    char message[MESSAGE_BYTES];
    unsigned long bytes;
    unsigned width = 0, height = 0;
    unsigned char *data = contents(names[index], &bytes);
    state = 88172645463325252ULL ^ bytes; /* anew, so that a file on its own repeats what it did among others */
    if (region_size(data, bytes, &width, &height, message) == DONE)
      for (int box = 0; box < 4; box++) decode_one(data, bytes, width, height);
    else
      refused++;
    pack_one(data, bytes);
    free(data);
  }
  printf("%d files: %u boxes decoded, %u refused, %u batches, %u streams, %u packed, %u bright samples\n", count - 1,
         decoded, refused, resized, streamed, packed, bright);
  return 0;
}
