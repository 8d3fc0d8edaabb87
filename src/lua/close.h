/* Nearly equal, as rs.close means it: numbers, tables and tensors of them, at any depth. */
#ifndef LUA_CLOSE_H
#define LUA_CLOSE_H
#include <lua.h>
#include <stdbool.h>

struct closeness {
    double absolute, relative;   /* |got - expected| <= absolute + relative * |expected| */
    bool   veiled;               /* tell how it differs, but nothing of what is expected */
    char   path[128];            /* where it differs: "[1][2]" */
    char   why[640];             /* "got 3, expected 4"; "" while everything is close */
};
/* The values at the two (absolute) indices. May raise. */
bool values_close(lua_State *L, int got, int expected, struct closeness *closeness);
#endif
