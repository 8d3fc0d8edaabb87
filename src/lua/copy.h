/* What packing and unpacking agree on: the parcel's bytes. For copy.c (out of a state) and paste.c (into one). */
#ifndef LUA_COPY_H
#define LUA_COPY_H
#include <lua.h>
#include <stdint.h>
#include "base/str.h"
#include "nn/module.h"

struct parcel {
    struct str    bytes;
    uint32_t      values;  /* at the top */
    struct sched *sched;
    size_t        charged; /* bytes that stand in the run's account */
    const char   *into;    /* where it goes, for messages; NULL: "another rank" */
};

/* One byte before each value. Tables, functions, tensors and modules are numbered as they come, REF names them. */
enum packed {
    PACKED_NIL, PACKED_FALSE, PACKED_TRUE, PACKED_INTEGER, PACKED_NUMBER, PACKED_TEXT, PACKED_POINTER, PACKED_REF,
    PACKED_PERMANENT, PACKED_TABLE, PACKED_FUNCTION, PACKED_BUILTIN, PACKED_TENSOR, PACKED_LAYER, PACKED_MODULE,
    PACKED_END, PACKED_OLD_UPVALUE, PACKED_NEW_UPVALUE
};

struct packed_tensor { int64_t size[8]; int32_t dtype, dims, device; uint8_t requires_grad, is_parameter, uninitialized; };
struct packed_layer  { const struct module_type *type; int64_t integers[MODULE_INTEGERS]; double numbers[MODULE_NUMBERS];
                       uint8_t training; };

/* What every state has: rs and its parts, the libraries, their metatables. Named by paths: 'S' (rs), 'G' (globals) or
 * 'R' (registry), then "\\1KEY" per step. permanents_push pushes the table object -> path, made on first use. */
void permanents_push(lua_State *L);
void permanents_forget(lua_State *L);                    /* a new function is among them */
#endif
