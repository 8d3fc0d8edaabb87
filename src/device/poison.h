/* Memory that nobody may use at the moment, for the address sanitizer; elsewhere nothing. */
#ifndef DEVICE_POISON_H
#define DEVICE_POISON_H
#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DEVICE_POISONS 1
#endif
#endif
#if defined(DEVICE_POISONS) || defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
static inline void poison_memory(void *memory, size_t bytes) { __asan_poison_memory_region(memory, bytes); }
static inline void unpoison_memory(void *memory, size_t bytes) { __asan_unpoison_memory_region(memory, bytes); }
#else
static inline void poison_memory(void *memory, size_t bytes) { (void)memory, (void)bytes; }
static inline void unpoison_memory(void *memory, size_t bytes) { (void)memory, (void)bytes; }
#endif
#endif
