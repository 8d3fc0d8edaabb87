/* Changes a packed trace where it hurts: ids, counts, lengths, kinds, phases, clocks; cuts, doubles, swaps chunks. */
#ifndef FUZZ_PACKED_CHANGE_H
#define FUZZ_PACKED_CHANGE_H
#include <stdint.h>

struct packed;

void packed_change(struct packed *packed, uint64_t *random); /* one change, perhaps none */
#endif
