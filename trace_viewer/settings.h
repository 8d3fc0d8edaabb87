/* The options of the screen, from settings.def: what :set and the config file speak of. */
#ifndef VIEWER_SETTINGS_H
#define VIEWER_SETTINGS_H
#include <stdbool.h>
#include <stddef.h>

struct str;

enum setting {
#define SETTING(id, ...) SETTING_##id,
#include "settings.def"
#undef SETTING
    SETTING_COUNT
};

enum { KEYS_RINGSIDE, KEYS_VI, KEYS_GDB, KEYS_PERFETTO };   /* of SETTING_keys */
enum { MOUSE_ON, MOUSE_OFF };                               /* of SETTING_mouse */

struct setting_info { const char *name, *values, *initial, *help; };
struct settings { int of[SETTING_COUNT]; };                 /* the number of the word, or the number */

void                       settings_init(struct settings *settings);
const struct setting_info *setting_info(int setting);
int                        setting_find(const char *name, size_t length);   /* -1: none is called so */
/* false: `why` names what it may be. */
bool                       settings_set(struct settings *settings, int setting, const char *value, char *why,
                                        size_t why_size);
void                       settings_print(const struct settings *settings, int setting, struct str *out); /* "on" */
#endif
