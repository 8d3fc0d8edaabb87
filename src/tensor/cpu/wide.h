/* WIDE: a static kernel that is compiled for several widths of vectors, of which the CPU's widest is taken when the
 * program is loaded. The width changes no bit: elements are worked out alone or in a fixed number of lanes, and nothing
 * is contracted. What such a kernel calls must be inlined, or it stays narrow. For static functions only: the names
 * that clang 14 gives to others are not found from outside.
 *
 * WIDE_FUSED: one of fractions that calls fma or fmaf, which are instructions from its second version on; integers
 * would stay narrow there. The first calls the C library for each element. */
#ifndef TENSOR_CPU_WIDE_H
#define TENSOR_CPU_WIDE_H
#include <limits.h> /* __GLIBC__ */

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NARROW_ONLY /* its run time is not there yet when the choice is made */
#endif
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_THREAD__) && !defined(NARROW_ONLY)
#define WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#define WIDE_FUSED __attribute__((target_clones("default", "fma", "avx512f")))
#else
#define WIDE
#define WIDE_FUSED
#endif
#endif
