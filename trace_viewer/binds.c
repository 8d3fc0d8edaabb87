/* Interface: binds_set and binds_remove for `bind` and `unbind`, binds_command for a key, binds_keys_of for help. */
#include "binds.h"

#include "base/vec.h"
#include "control/commands.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What differs from the table, by program. F10, > and < mean the same everywhere. */
static const struct { int keys; const char *key, *line; } known_hands[] = {
    { KEYS_VI, "n", "match" }, { KEYS_VI, "N", "rmatch" }, { KEYS_VI, "^D", "page-down" },
    { KEYS_VI, "^U", "page-up" }, { KEYS_VI, "^E", "lane-down" }, { KEYS_VI, "^Y", "lane-up" },
    { KEYS_GDB, "w", "where" }, { KEYS_GDB, "p", "print" }, { KEYS_GDB, "d", "delete" },
    { KEYS_GDB, "F6", "continue" }, { KEYS_GDB, "F7", "finish" }, { KEYS_GDB, "F8", "next" },
    { KEYS_PERFETTO, "w", "zoom-in" }, { KEYS_PERFETTO, "s", "zoom-out" }, { KEYS_PERFETTO, "a", "pan-left" },
    { KEYS_PERFETTO, "d", "pan-right" }, { KEYS_PERFETTO, "f", "into" }, { KEYS_PERFETTO, "S", "zoom-out" },
    { KEYS_PERFETTO, "F", "fit" },
};

static const char *const named_keys[] = {
    "Space", "Enter", "Tab", "BackTab", "Backspace", "Delete", "Insert", "Home", "End", "PageUp", "PageDown", "Up",
    "Down", "Left", "Right", "Esc",
};

/* "<F9>", "F9": the key's name; false: no key is called so. */
static bool
read_key(const char *text, char key[KEY_NAME])
{
    size_t length = strlen(text);
    bool   framed = length > 2 && text[0] == '<' && text[length - 1] == '>';
    snprintf(key, KEY_NAME, "%.*s", framed ? (int)length - 2 : (int)length, text + framed);
    const char *name = key, *held[] = { "Ctrl", "Alt", "Shift" };
    for (size_t i = 0; i < countof(held); i++)
        if (strncmp(name, held[i], strlen(held[i])) == 0)
            name += strlen(held[i]);
    for (size_t i = 0; i < countof(named_keys); i++)
        if (strcmp(named_keys[i], name) == 0)
            return true;
    int  number;
    char end;
    if (name[0] == 'F' && sscanf(name + 1, "%2d%c", &number, &end) == 1 && number >= 1 && number <= 12)
        return true;
    if (key[0] == '^' && key[1] >= '@' && key[1] <= '_' && key[2] == '\0')
        return true;
    size_t bytes = 1;
    while (((unsigned char)key[bytes] & 0xc0) == 0x80)
        bytes++;
    return (unsigned char)key[0] > 32 && key[0] != 127 && key[bytes] == '\0';
}

static struct bind *
find_own(const struct binds *binds, const char *key)
{
    for (size_t i = 0; i < binds->count; i++)
        if (strcmp(binds->rows[i].key, key) == 0)
            return &binds->rows[i];
    return NULL;
}

/* One comes out of everything by these, and counts by those. */
static bool
keeps_its_meaning(const char *key)
{
    return strcmp(key, ":") == 0 || strcmp(key, "^C") == 0 || (key[0] >= '1' && key[0] <= '9' && key[1] == '\0');
}

bool
binds_set(struct binds *binds, const char *key, const char *line, char *why, size_t why_size)
{
    char                name[KEY_NAME], trouble[256];
    struct command_line parsed;
    if (!read_key(key, name)) {
        snprintf(why, why_size, "no key is called '%.20s'; F9, ^X, Space, PageUp and letters are", key);
        return false;
    }
    if (keeps_its_meaning(name)) {
        snprintf(why, why_size, "%s keeps its meaning", name);
        return false;
    }
    bool needs = !command_parse(line, &parsed, trouble, sizeof trouble) && strstr(trouble, " needs ") == NULL;
    if (needs || strlen(line) >= BOUND_LINE) {
        snprintf(why, why_size, "%s", needs ? trouble : "the command is too long for a key");
        return false;
    }
    struct bind *own = find_own(binds, name);
    if (own == NULL) {
        if (!vec_room(&binds->rows, &binds->room, binds->count + 1, sizeof *binds->rows)) {
            snprintf(why, why_size, "out of memory");
            return false;
        }
        own = &binds->rows[binds->count++];
    }
    snprintf(own->key, sizeof own->key, "%s", name);
    snprintf(own->line, sizeof own->line, "%s", line);
    return true;
}

bool
binds_remove(struct binds *binds, const char *key)
{
    char         name[KEY_NAME];
    struct bind *own = read_key(key, name) ? find_own(binds, name) : NULL;
    if (own == NULL)
        return false;
    binds->count--;
    memmove(own, own + 1, (size_t)(binds->rows + binds->count - own) * sizeof *own);
    return true;
}

const char *
binds_line(const struct binds *binds, int keys, const char *key)
{
    const struct bind *own = find_own(binds, key);
    if (own != NULL)
        return own->line;
    for (size_t i = 0; i < countof(known_hands); i++)
        if (known_hands[i].keys == keys && strcmp(known_hands[i].key, key) == 0)
            return known_hands[i].line;
    return NULL;
}

/* The command in the table that has the key, -1 none. */
static int
table_command(const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; i < CMD_COUNT && length > 0; i++)
        for (const char *at = command_info(i)->keys; *at != '\0'; at += strspn(at, " ")) {
            size_t word = strcspn(at, " ");
            if (word == length && memcmp(at, key, length) == 0)
                return i;
            at += word;
        }
    return -1;
}

/* A bound line that is a command's name alone; -1: it says more, or is none. */
static int
named_command(const char *line)
{
    for (int i = 0; i < CMD_COUNT; i++)
        if (strcmp(command_info(i)->name, line) == 0)
            return i;
    return -1;
}

int
binds_command(const struct binds *binds, int keys, const char *key, const char **line)
{
    *line = binds_line(binds, keys, key);
    return *line != NULL ? named_command(*line) : table_command(key);
}

static void
add_key(char *out, size_t size, const char *key, size_t length)
{
    size_t used = strlen(out);
    if (used + length + 2 <= size)
        snprintf(out + used, size - used, "%s%.*s", used > 0 ? " " : "", (int)length, key);
}

void
binds_keys_of(const struct binds *binds, int keys, int command, char *out, size_t size)
{
    const char *name = command_info(command)->name;
    out[0] = '\0';
    for (size_t i = 0; i < binds->count; i++)
        if (strcmp(binds->rows[i].line, name) == 0)
            add_key(out, size, binds->rows[i].key, strlen(binds->rows[i].key));
    for (const char *at = command_info(command)->keys; *at != '\0'; at += strspn(at, " ")) {
        char   key[KEY_NAME];
        size_t length = strcspn(at, " ");
        snprintf(key, sizeof key, "%.*s", (int)length, at);
        if (binds_line(binds, keys, key) == NULL)
            add_key(out, size, at, length);
        at += length;
    }
    for (size_t i = 0; i < countof(known_hands); i++)
        if (known_hands[i].keys == keys && strcmp(known_hands[i].line, name) == 0 &&
            find_own(binds, known_hands[i].key) == NULL && table_command(known_hands[i].key) != command)
            add_key(out, size, known_hands[i].key, strlen(known_hands[i].key));
}

void
binds_free(struct binds *binds)
{
    free(binds->rows);
    *binds = (struct binds){ .count = 0 };
}
