/* Interface: lua_text.h. */
#include "lua_text.h"

#include <ctype.h>
#include <string.h>

bool
lua_is_name(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

size_t
lua_long_text(const char *text)
{
    size_t level = text[0] == '[' ? strspn(text + 1, "=") : 0;
    if (text[0] != '[' || text[1 + level] != '[')
        return 0;
    const char *at = text + 2 + level;
    while ((at = strchr(at, ']')) != NULL) {
        if (strspn(at + 1, "=") == level && at[1 + level] == ']')
            return (size_t)(at + 2 + level - text);
        at++;
    }
    return strlen(text);
}

size_t
lua_short_text(const char *text)
{
    size_t length = 1;
    while (text[length] != '\0' && text[length] != '\n' && text[length] != text[0])
        length += text[length] == '\\' && text[length + 1] != '\0' ? 2 : 1;
    return length + (text[length] == text[0]);
}
