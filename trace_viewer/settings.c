/* Interface: settings_init, setting_find and settings_set for `set NAME VALUE`, settings_print. */
#include "settings.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct setting_info infos[SETTING_COUNT] = {
#define SETTING(id, name, values, initial, help) { name, values, initial, help },
#include "settings.def"
#undef SETTING
};

const struct setting_info *
setting_info(int setting)
{
    return setting >= 0 && setting < SETTING_COUNT ? &infos[setting] : NULL;
}

int
setting_find(const char *name, size_t length)
{
    for (int i = 0; i < SETTING_COUNT; i++)
        if (strlen(infos[i].name) == length && strncmp(infos[i].name, name, length) == 0)
            return i;
    return -1;
}

/* The number of a word in "on|off", -1 none. */
static int
word_number(const char *values, const char *word)
{
    int number = 0;
    for (const char *at = values; *at != '\0'; number++) {
        size_t length = strcspn(at, "|");
        if (strlen(word) == length && strncmp(at, word, length) == 0)
            return number;
        at += length + (at[length] == '|');
    }
    return -1;
}

static bool
in_range(const char *values, const char *word, int *number)
{
    int  from, to;
    char end;
    return sscanf(values, "%d-%d%c", &from, &to, &end) == 2 && sscanf(word, "%9d%c", number, &end) == 1 &&
           *number >= from && *number <= to;
}

bool
settings_set(struct settings *settings, int setting, const char *value, char *why, size_t why_size)
{
    int number = word_number(infos[setting].values, value);
    if (number < 0 && !in_range(infos[setting].values, value, &number)) {
        snprintf(why, why_size, "%s is one of %s, not '%.40s'", infos[setting].name, infos[setting].values, value);
        return false;
    }
    settings->of[setting] = number;
    return true;
}

void
settings_init(struct settings *settings)
{
    char why[128];
    for (int i = 0; i < SETTING_COUNT; i++)
        settings_set(settings, i, infos[i].initial, why, sizeof why);
}

void
settings_print(const struct settings *settings, int setting, struct str *out)
{
    const char *at = infos[setting].values;
    if (strchr(at, '|') == NULL) {
        str_addf(out, "%d", settings->of[setting]);
        return;
    }
    for (int i = 0; i < settings->of[setting]; i++)
        at += strcspn(at, "|") + 1;
    str_add_bytes(out, at, strcspn(at, "|"));
}
