/* What people who come from Python write: recognised, and told what stands for it here. The table is mistakes.def; the
 * page `ringside help python` is made from it, too. What is silently wrong is made an error by who would take it. */
#ifndef LUA_MISTAKES_H
#define LUA_MISTAKES_H
#include <stdbool.h>
#include <stddef.h>
#include <lua.h>

struct str;

/* The compiler's message about the chunk of that name is at the top: it gets a hint at its end, and the line where the mistake is, if the compiler
 * noticed later. */
void mistake_in_text(lua_State *L, const char *name, const char *text, size_t size);
void mistake_at_run(lua_State *L);                        /* Lua's message is at the top, without its place: likewise */
/* Push what to write instead; false: nothing is known. */
/* `index` 0: nothing came. */
bool mistake_in_argument(lua_State *L, int index, const char *expected);
bool mistake_in_option(lua_State *L, const char *name);
bool mistake_in_attribute(lua_State *L, const char *name);
void mistake_in_method(lua_State *L, const char *name, int function); /* raises if a class is never asked for it */
void mistakes_open(lua_State *L);                         /* the globals: names whose being nil would go unnoticed */
void mistakes_page(struct str *out);

/* ---- the line of the lesson that runs (receiver.c) ---- */
struct source_line;
bool read_running_line(lua_State *L, int level, struct source_line *line);
/* Whether it says [index], with the number itself: a[#a - i] may well come to 0. Asked inside of __index. */
bool writes_index(lua_State *L, long long index);
/* Dot and colon, asked inside of the C function that was called wrongly. */
bool push_colon(lua_State *L);  /* it is a method called as x.f(): pushes "x:f()" */
bool push_dot(lua_State *L);    /* it is a function of a namespace called as rs:f(): pushes "rs.f()" */
#endif
