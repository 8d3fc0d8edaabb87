/* What stands for an index until it is whole: how busy each lane was in stretches of events spread over the trace. */
#ifndef ANALYSIS_INDEX_SAMPLE_H
#define ANALYSIS_INDEX_SAMPLE_H
#include <stdbool.h>

struct index;

bool index_sample_all(struct index *index); /* false: no memory */
#endif
