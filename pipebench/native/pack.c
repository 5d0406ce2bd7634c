/* Gives a JPEG restart markers without changing a coefficient; the other half is packing.py, which explains it.
 *
 * The coefficients are read, written with a marker after so many MCUs, read again from what was written by libjpeg, and
 * compared. A usual file is read and written by recoding.h, all others by libjpeg. All other segments are kept, and so
 * is whatever follows the end of the image. There is no state between calls, so any number of threads may call at once.
 */

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "reading.h"
#include "recoding.h"

enum {
  LONGEST = 0xFFFF,     /* the bytes of a segment */
  FARTHEST = 3,         /* a divisor of the row that is farther than this from the interval asked for is of no use */
  LARGEST_INTERVAL = 0xFFFF
};

/* A decompressor, what libjpeg needs for it, and what it read. */
struct reader {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jvirt_barray_ptr *coefficients;
};

struct packer {
  struct outcome outcome;
  struct reader source, check;
  struct jpeg_compress_struct target;
  struct jpeg_error_mgr errors;
  struct jpeg_destination_mgr destination;
  const unsigned char *data;
  unsigned long bytes;
  unsigned segment; /* pixels */
  int keep_tables;
  unsigned char *out;
  unsigned long room, written;
  int is_written; /* whatever fails from here on, the source is sound */
  struct recoding *recoding;
};

static void open_reader(struct packer *packer, struct reader *reader, const unsigned char *data, unsigned long bytes) {
  jpeg_create_decompress(&reader->info);
  reader->progress.progress_monitor = on_progress;
  reader->info.progress = &reader->progress;
  jpeg_mem_src(&reader->info, data, bytes);
  for (int marker = 0; marker < 16; marker++) jpeg_save_markers(&reader->info, JPEG_APP0 + marker, LONGEST);
  jpeg_save_markers(&reader->info, JPEG_COM, LONGEST);
  read_header(&reader->info, bytes);
  if (reader->info.progressive_mode) fail(&packer->outcome, UNSUPPORTED, "progressive files have no use for markers");
}

/* The MCUs of a row of the one scan that will be written, and the pixels that an MCU is wide. */
static unsigned mcus_in_row(const struct jpeg_decompress_struct *info, unsigned *mcu_width) {
  *mcu_width = DCTSIZE * (info->num_components == 1 ? 1 : (unsigned)info->max_h_samp_factor);
  return (info->image_width + *mcu_width - 1) / *mcu_width;
}

/* The divisor of `row` that is nearest to `wanted`, by their ratio, or the whole row if none is near. An interval that
 * is no divisor would end at another column in every row. */
static unsigned interval_for(unsigned row, unsigned wanted) {
  unsigned best = row;
  double nearest = FARTHEST;
  if (wanted < 1) wanted = 1;
  for (unsigned divisor = 1; divisor <= row; divisor++) {
    double ratio = divisor > wanted ? (double)divisor / wanted : (double)wanted / divisor;
    if (row % divisor == 0 && ratio <= nearest) best = divisor, nearest = ratio;
  }
  return best;
}

static void nothing_to_do(j_compress_ptr info) { (void)info; }

static boolean no_more_room(j_compress_ptr info) {
  fail(info->client_data, UNSUPPORTED, "it would grow by half");
  return FALSE;
}

/* Copies the Huffman tables of the source and which component uses which. */
static void keep_tables(struct packer *packer) {
  struct jpeg_decompress_struct *source = &packer->source.info;
  struct jpeg_compress_struct *target = &packer->target;
  for (int index = 0; index < NUM_HUFF_TBLS; index++)
    for (int ac = 0; ac < 2; ac++) {
      JHUFF_TBL *theirs = ac ? source->ac_huff_tbl_ptrs[index] : source->dc_huff_tbl_ptrs[index];
      JHUFF_TBL **ours = ac ? &target->ac_huff_tbl_ptrs[index] : &target->dc_huff_tbl_ptrs[index];
      if (theirs == NULL) continue;
      if (*ours == NULL) *ours = jpeg_alloc_huff_table((j_common_ptr)target);
      memcpy(*ours, theirs, sizeof **ours);
      (*ours)->sent_table = FALSE;
    }
  for (int index = 0; index < source->num_components; index++) {
    target->comp_info[index].dc_tbl_no = source->comp_info[index].dc_tbl_no;
    target->comp_info[index].ac_tbl_no = source->comp_info[index].ac_tbl_no;
  }
}

static void write_markers(struct packer *packer) {
  for (jpeg_saved_marker_ptr marker = packer->source.info.marker_list; marker != NULL; marker = marker->next)
    jpeg_write_marker(&packer->target, marker->marker, marker->data, marker->data_length);
}

static unsigned interval_of(const struct packer *packer) {
  unsigned mcu_width, row = mcus_in_row(&packer->source.info, &mcu_width);
  return interval_for(row, (packer->segment + mcu_width / 2) / mcu_width);
}

/* Writes the coefficients of the source to `out`. JFIF and Adobe segments are among those that are copied. */
static void write_target(struct packer *packer) {
  struct jpeg_compress_struct *target = &packer->target;
  struct jpeg_decompress_struct *source = &packer->source.info;
  unsigned interval = interval_of(packer);
  packer->source.coefficients = jpeg_read_coefficients(source);
  jpeg_create_compress(target);
  target->dest = &packer->destination;
  packer->destination.init_destination = nothing_to_do;
  packer->destination.empty_output_buffer = no_more_room;
  packer->destination.term_destination = nothing_to_do;
  packer->destination.next_output_byte = packer->out;
  packer->destination.free_in_buffer = packer->room;
  jpeg_copy_critical_parameters(source, target);
  target->write_JFIF_header = FALSE;
  target->write_Adobe_marker = FALSE;
  target->restart_interval = interval < LARGEST_INTERVAL ? interval : 0;
  target->optimize_coding = !packer->keep_tables;
  if (packer->keep_tables) keep_tables(packer);
  jpeg_write_coefficients(target, packer->source.coefficients);
  write_markers(packer);
  jpeg_finish_compress(target);
  packer->written = packer->room - packer->destination.free_in_buffer;
}

/* Appends what follows the end of the image in the source: phones store a film there. */
static void append_rest(struct packer *packer) {
  struct jpeg_source_mgr *left = packer->source.info.src;
  if (left->bytes_in_buffer > packer->room - packer->written) no_more_room(&packer->target);
  memcpy(packer->out + packer->written, left->next_input_byte, left->bytes_in_buffer);
  packer->written += left->bytes_in_buffer;
}

static int same_markers(jpeg_saved_marker_ptr one, jpeg_saved_marker_ptr other) {
  for (; one != NULL && other != NULL; one = one->next, other = other->next)
    if (one->marker != other->marker || one->data_length != other->data_length ||
        memcmp(one->data, other->data, one->data_length) != 0)
      return 0;
  return one == NULL && other == NULL;
}

/* The divisors of a component; before its scan is read, those that the header has. */
static const JQUANT_TBL *divisors(const struct reader *reader, int component) {
  const jpeg_component_info *shape = &reader->info.comp_info[component];
  return shape->quant_table != NULL ? shape->quant_table : reader->info.quant_tbl_ptrs[shape->quant_tbl_no];
}

static int same_component(const struct reader *before, const struct reader *after, int component) {
  const jpeg_component_info *one = &before->info.comp_info[component], *other = &after->info.comp_info[component];
  const JQUANT_TBL *ours = divisors(before, component), *theirs = divisors(after, component);
  return one->component_id == other->component_id && one->h_samp_factor == other->h_samp_factor &&
         one->v_samp_factor == other->v_samp_factor && one->width_in_blocks == other->width_in_blocks &&
         one->height_in_blocks == other->height_in_blocks && ours != NULL && theirs != NULL &&
         memcmp(ours->quantval, theirs->quantval, sizeof ours->quantval) == 0;
}

static JBLOCKARRAY block_rows(struct reader *reader, int component, JDIMENSION first, int many) {
  j_common_ptr common = (j_common_ptr)&reader->info;
  return reader->info.mem->access_virt_barray(common, reader->coefficients[component], first, many, FALSE);
}

static int same_coefficients(struct reader *one, struct reader *other, int component) {
  const jpeg_component_info *shape = &one->info.comp_info[component];
  size_t bytes = shape->width_in_blocks * sizeof(JBLOCK);
  for (JDIMENSION row = 0; row < shape->height_in_blocks; row++) {
    JBLOCKARRAY ours = block_rows(one, component, row, 1), theirs = block_rows(other, component, row, 1);
    if (memcmp(ours[0], theirs[0], bytes) != 0) return 0;
  }
  return 1;
}

/* Whether libjpeg found the coefficients that recoding.h noted, those of dummy blocks among them. */
static int same_as_noted(const struct recoding *noted, struct reader *found) {
  const jpeg_component_info *shapes = found->info.comp_info;
  const uint32_t *note = noted->notes;
  int components = found->info.num_components;
  for (unsigned row = 0; row < noted->rows; row++) {
    JBLOCKARRAY blocks[3];
    int across[3], down[3];
    for (int index = 0; index < components; index++) {
      across[index] = components == 1 ? 1 : shapes[index].h_samp_factor;
      down[index] = components == 1 ? 1 : shapes[index].v_samp_factor;
      blocks[index] = block_rows(found, index, row * (JDIMENSION)down[index], down[index]);
    }
    for (unsigned column = 0; column < noted->columns; column++)
      for (int index = 0; index < components; index++)
        for (int y = 0; y < down[index]; y++)
          for (int x = 0; x < across[index]; x++) {
            note = same_block(note, blocks[index][y][column * (unsigned)across[index] + (unsigned)x]);
            if (note == NULL) return 0;
          }
  }
  return 1;
}

/* Reads what was written, as any decoder would, and compares everything that decides a pixel. */
static void verify(struct packer *packer) {
  struct jpeg_decompress_struct *source = &packer->source.info, *check = &packer->check.info;
  packer->is_written = 1;
  open_reader(packer, &packer->check, packer->out, packer->written);
  packer->check.coefficients = jpeg_read_coefficients(check);
  int same = source->image_width == check->image_width && source->image_height == check->image_height &&
             source->num_components == check->num_components &&
             source->jpeg_color_space == check->jpeg_color_space &&
             same_markers(source->marker_list, check->marker_list);
  for (int index = 0; same && index < source->num_components; index++)
    same = same_component(&packer->source, &packer->check, index) &&
           (packer->source.coefficients == NULL || same_coefficients(&packer->source, &packer->check, index));
  if (packer->source.coefficients == NULL) same = same && same_as_noted(packer->recoding, &packer->check);
  if (!same) fail(&packer->outcome, UNSUPPORTED, "what was written is not the same picture");
}

/* Not inlined, so that its variables are not those of the function that calls setjmp. */
__attribute__((noinline)) static void work(struct packer *packer) {
  open_reader(packer, &packer->source, packer->data, packer->bytes);
  packer->recoding = calloc(1, sizeof *packer->recoding);
  if (packer->recoding != NULL)
    packer->written = recode(packer->recoding, packer->data, packer->bytes, interval_of(packer), packer->keep_tables,
                             packer->out, packer->room);
  if (packer->written == 0) {
    write_target(packer);
    append_rest(packer);
  }
  verify(packer);
}

static void prepare(struct reader *reader, struct outcome *outcome) {
  reader->info.mem = NULL;
  reader->coefficients = NULL;
  reader->info.err = quiet(&reader->errors);
  reader->info.client_data = outcome;
}

/* Writes the file with markers into `out`, which has `room` bytes. A marker comes about every `segment` pixels.
 * Returns a `kind`, and the bytes written in `*written`; `message` says why not. */
EXPORT int pack_file(const unsigned char *data, unsigned long bytes, unsigned segment, int keep, unsigned char *out,
                     unsigned long room, unsigned long *written, char *message) {
  struct packer packer;
  packer.outcome.kind = DONE;
  packer.outcome.message = message;
  message[0] = 0;
  packer.data = data;
  packer.bytes = bytes;
  packer.segment = segment;
  packer.keep_tables = keep;
  packer.out = out;
  packer.room = room;
  packer.is_written = 0;
  packer.written = 0;
  packer.recoding = NULL;
  prepare(&packer.source, &packer.outcome);
  prepare(&packer.check, &packer.outcome);
  packer.target.mem = NULL;
  packer.target.err = quiet(&packer.errors);
  packer.target.client_data = &packer.outcome;
  if (setjmp(packer.outcome.failed) == 0) {
    work(&packer);
    *written = packer.written;
  }
  jpeg_destroy_compress(&packer.target);
  jpeg_destroy_decompress(&packer.check.info);
  jpeg_destroy_decompress(&packer.source.info);
  close_recoding(packer.recoding);
  if (packer.outcome.kind == DONE || packer.outcome.kind == OUT_OF_MEMORY || !packer.is_written)
    return packer.outcome.kind;
  snprintf(message, MESSAGE_BYTES, keep ? "its Huffman tables have no code for what markers need"
                                        : "what was written was not the same picture");
  return UNSUPPORTED;
}

/* Lets free memory stay with this process: the coefficients of each image take some MB, and the kernel would have to
 * find and clear new pages for every one of them. */
EXPORT void pack_keep_memory(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 29);
#endif
}

/* Whether the library that was loaded fits the header that this was compiled with; `message` says why not. */
EXPORT int pack_check(char *message) { return check_library(message); }
