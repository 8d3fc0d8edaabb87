/* The screen as a person wants it: options, keys, the mouse. */
#include "look_internal.h"

#include "base/str.h"
#include "keys.h"
#include "options.h"

#include <stdio.h>
#include <string.h>

/* A viewer's command whose arguments are a list of words is an option as well; -1: no such one is called so. */
static int
command_option(const char *name, size_t length)
{
    for (int i = 0; i < CMD_COUNT; i++) {
        const struct command_info *info = command_info(i);
        if ((info->scope & SCOPE_VIEWER) != 0 && strchr(info->args, '|') != NULL && strchr(info->args, ' ') == NULL &&
            strlen(info->name) == length && strncmp(info->name, name, length) == 0)
            return i;
    }
    return -1;
}

bool
options_own(const char *rest)
{
    size_t length = strcspn(rest, " ");
    return length == 0 || (memchr(rest, '[', length) == NULL &&
                           (setting_find(rest, length) >= 0 || command_option(rest, length) >= 0));
}

static void
list_options(struct view *view)
{
    struct str text = { 0 };
    for (int i = 0; i < SETTING_COUNT; i++) {
        struct str value = { 0 };
        settings_print(&view->settings, i, &value);
        str_addf(&text, "%-9s %-9s %s: %s\n", setting_info(i)->name, str_text(&value), setting_info(i)->values,
                 setting_info(i)->help);
        str_free(&value);
    }
    for (int i = 0; i < CMD_COUNT; i++) {
        const struct command_info *info = command_info(i);
        if (setting_find(info->name, strlen(info->name)) < 0 && command_option(info->name, strlen(info->name)) == i)
            str_addf(&text, "%-9s           %s: %s\n", info->name, info->args, info->help);
    }
    if (str_ok(&text))
        view_answer(view, str_text(&text));
    view_say(view, "the screen's options; :set NAME VALUE changes one");
    str_free(&text);
}

static void
say_option(struct view *view, int setting)
{
    struct str value = { 0 };
    settings_print(&view->settings, setting, &value);
    view_say(view, "%s is %s (%s): %s", setting_info(setting)->name, str_text(&value), setting_info(setting)->values,
             setting_info(setting)->help);
    str_free(&value);
}

bool
options_set(struct view *view, struct model *model, const char *rest, char *why, size_t why_size)
{
    size_t      length  = strcspn(rest, " ");
    const char *value   = rest + length + strspn(rest + length, " ");
    int         setting = setting_find(rest, length), command = command_option(rest, length);
    char        text[640];
    struct command_line option;
    if (setting >= 0)
        return settings_set(&view->settings, setting, value, why, why_size);
    if (command < 0) {
        snprintf(why, why_size, "no option is called '%.*s'; :set lists them", (int)length, rest);
        return false;
    }
    snprintf(text, sizeof text, "%s %s", command_info(command)->name, value);
    if (!command_parse(text, &option, why, why_size))
        return false;
    look(model, view, &option);
    return true;
}

static void
set(struct view *view, struct model *model, const struct command_line *line)
{
    size_t length = strcspn(line->rest, " ");
    int    setting = setting_find(line->rest, length);
    char   why[256];
    if (length == 0)
        list_options(view);
    else if ((setting < 0 || line->rest[length] != '\0') && !options_set(view, model, line->rest, why, sizeof why))
        view_say(view, "%s", why);
    else if (setting >= 0)
        say_option(view, setting);
}

static void
mouse(struct view *view, struct model *model, const struct command_line *line)
{
    char why[128];
    (void)model;
    const char *other = view->settings.of[SETTING_mouse] == MOUSE_ON ? "off" : "on";
    const char *value = line->rest[0] != '\0' ? line->rest : other;
    if (!settings_set(&view->settings, SETTING_mouse, value, why, sizeof why))
        view_say(view, "%s", why);
    else
        view_say(view, view->settings.of[SETTING_mouse] == MOUSE_ON
                           ? "the mouse is the screen's; Shift-drag selects text"
                           : "the mouse is the terminal's, to select text with; F2 takes it back");
}

static void
theme(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    if (theme_of_name(line->rest, &view->theme))
        view_say(view, "the theme is %s", theme_name(view->theme));
    else
        view_say(view, "a theme is %s, not %.40s", command_info(CMD_theme)->args, line->rest);
}

static void
list_keys(struct view *view)
{
    struct str text = { 0 };
    for (size_t i = 0; i < view->binds.count; i++)
        str_addf(&text, "%-9s %s  (bound)\n", view->binds.rows[i].key, view->binds.rows[i].line);
    for (int i = 0; i < CMD_COUNT; i++) {
        char keys[64];
        binds_keys_of(&view->binds, view->settings.of[SETTING_keys], i, keys, sizeof keys);
        if (keys[0] != '\0')
            str_addf(&text, "%-9s %s\n", keys, command_info(i)->name);
    }
    if (str_ok(&text))
        view_answer(view, str_text(&text));
    view_say(view, "every key and its command; :bind KEY COMMAND changes one");
    str_free(&text);
}

bool
options_bind(struct view *view, const char *rest, char *why, size_t why_size)
{
    size_t      length = strcspn(rest, " ");
    const char *what   = rest + length + strspn(rest + length, " ");
    char        key[64];
    snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1), rest);
    return binds_set(&view->binds, key, what + (what[0] == ':'), why, why_size);
}

static void
bind_key(struct view *view, struct model *model, const struct command_line *line)
{
    size_t length = strcspn(line->rest, " ");
    char   why[256];
    (void)model;
    if (length == 0)
        list_keys(view);
    else if (line->rest[length] == '\0')
        keys_explain(view, line->rest);
    else if (options_bind(view, line->rest, why, sizeof why))
        view_say(view, "bound: %s", line->rest);
    else
        view_say(view, "%s", why);
}

static void
unbind(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    if (binds_remove(&view->binds, line->rest))
        view_say(view, "%.40s means what it did", line->rest);
    else
        view_say(view, "no command was bound to %.40s", line->rest);
}

const struct look_rule look_option_rules[] = {
    { CMD_set, set },
    { CMD_mouse, mouse },
    { CMD_bind, bind_key },
    { CMD_unbind, unbind },
    { CMD_theme, theme },
    { 0, NULL },
};
