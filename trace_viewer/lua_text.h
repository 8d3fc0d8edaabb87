/* Texts as Lua writes them. */
#ifndef VIEWER_LUA_TEXT_H
#define VIEWER_LUA_TEXT_H
#include <stdbool.h>
#include <stddef.h>

bool   lua_is_name(char letter);
/* How many bytes "[==[ ... ]==]" has that begins at `text`; 0: none does. One that is cut ends with its text. */
size_t lua_long_text(const char *text);
/* The same of "..." or '...', whose mark `text` begins with; it ends with its line. */
size_t lua_short_text(const char *text);
#endif
