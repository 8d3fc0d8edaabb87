/* How much order.h sorts, and in how much workspace; for C too. */
#ifndef CUDA_KERNELS_ORDER_ROOM_H
#define CUDA_KERNELS_ORDER_ROOM_H
#include <stdint.h>

enum { ORDER_CHUNK = 2048, ORDER_WAYS = 64, ORDER_LIMIT = ORDER_CHUNK * ORDER_WAYS * ORDER_WAYS };
enum { ORDER_EACH = 2 * (sizeof(uint64_t) + sizeof(uint32_t)) };   /* bytes for each key */
#endif
