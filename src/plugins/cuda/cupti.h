/* CUPTI as a table of functions: the library is opened when it is first needed, so the plug-in loads without it. The
 * only function here fills the table; a test links another one in its place (tests/cuda/fake_cupti.c). */
#ifndef CUDA_CUPTI_H
#define CUDA_CUPTI_H
#include <stdbool.h>
#include <stddef.h>
#if defined(__has_include)
#if __has_include(<cupti.h>)
#define HAVE_CUPTI 1
#include <cupti.h>
#endif
#endif

#ifdef HAVE_CUPTI
struct cupti_table {
    __typeof__(cuptiGetVersion)                        *version;
    __typeof__(cuptiGetResultString)                   *text;
    __typeof__(cuptiActivitySetAttribute)              *set_attribute;
    __typeof__(cuptiActivityRegisterTimestampCallback) *clock;
    __typeof__(cuptiActivityRegisterCallbacks)         *buffers;
    __typeof__(cuptiActivityEnable)                    *enable;
    __typeof__(cuptiActivityDisable)                   *disable;
    CUptiResult (*enable_runtime)(CUpti_CallbackId call, uint8_t on);    /* these two: NULL before 12.3 */
    CUptiResult (*enable_driver)(CUpti_CallbackId call, uint8_t on);
    __typeof__(cuptiActivityPushExternalCorrelationId) *push;
    __typeof__(cuptiActivityPopExternalCorrelationId)  *pop;
    __typeof__(cuptiActivityFlushAll)                  *flush;
    __typeof__(cuptiActivityGetNextRecord)             *next;
    __typeof__(cuptiActivityGetNumDroppedRecords)      *dropped;
};

/* All of it, of a library that is at least as new as the header this was built with: older ones write other structs.
 * false: `why` is one phrase. */
bool cupti_table_open(struct cupti_table *table, char *why, size_t size);
#endif
#endif
