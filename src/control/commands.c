/* The table of commands, the words of a command line, and the help made from the table.
 *
 * Interface in order of use: command_parse for a line, command_info for a row, commands_help for all of them. */
#include "control/commands.h"

#include "base/str.h"
#include "base/vec.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command_info commands[CMD_COUNT] = {
#define COMMAND(id, name, args, keys, scope, group, help) { name, args, help, keys, scope, group },
#include "control/commands.def"
#undef COMMAND
};

const struct command_info *
command_info(int command)
{
    return command >= 0 && command < CMD_COUNT ? &commands[command] : NULL;
}

/* The keys that are one character are names too: "s" is step although "set" and "switch" begin with it. */
static int
find_by_key(const char *word, int scope)
{
    if (word[0] == '\0' || word[1] != '\0')
        return -1;
    for (int i = 0; i < CMD_COUNT; i++)
        for (const char *key = commands[i].keys; *key != '\0' && (commands[i].scope & scope) != 0; key++)
            if (*key == word[0] && (key == commands[i].keys || key[-1] == ' ') && (key[1] == ' ' || key[1] == '\0'))
                return i;
    return -1;
}

/* The command that `word` names, in full, by its key or by a beginning that no other has; -1 with `why`. */
static int
find_command(const char *word, int scope, char *why, size_t why_size)
{
    int found = -1, other = -1;
    size_t length = strlen(word);
    for (int i = 0; i < CMD_COUNT; i++) {
        if ((commands[i].scope & scope) == 0)
            continue;
        if (strcmp(commands[i].name, word) == 0)
            return i;
        if (strncmp(commands[i].name, word, length) == 0) {
            if (found < 0)
                found = i;
            else if (other < 0)
                other = i;
        }
    }
    int key = find_by_key(word, scope);
    if (key >= 0)
        return key;
    if (found < 0)
        snprintf(why, why_size, "no command is called '%.40s'; help lists them", word);
    else if (other >= 0)
        snprintf(why, why_size, "'%.40s' may be %s or %s; one letter more decides", word, commands[found].name,
                 commands[other].name);
    return other >= 0 ? -1 : found;
}

static const char *
skip_blanks(const char *text)
{
    while (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n')
        text++;
    return text;
}

/* The whole of `text` as a count. */
static bool
parse_count(const char *text, int64_t *out)
{
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *skip_blanks(end) != '\0')
        return false;
    *out = value;
    return true;
}

/* Do the arguments fit what the table says? "[N]": perhaps a number; "N", "SEQ": a number; "": nothing. */
static bool
arguments_fit(const struct command_line *line, char *why, size_t why_size)
{
    const struct command_info *info = &commands[line->command];
    bool given = line->rest[0] != '\0';
    if (info->args[0] == '\0' && given) {
        snprintf(why, why_size, "%s takes no arguments", info->name);
        return false;
    }
    if (info->args[0] != '\0' && info->args[0] != '[' && !given) {
        snprintf(why, why_size, "%s needs %s", info->name, info->args);
        return false;
    }
    bool number = strcmp(info->args, "[N]") == 0 || strcmp(info->args, "N") == 0 || strcmp(info->args, "SEQ") == 0;
    if (number && given && !line->has_count) {
        snprintf(why, why_size, "%s %s: '%.40s' is not a number", info->name, info->args, line->rest);
        return false;
    }
    return true;
}

/* The first word, cut at a blank; answers where the rest begins, NULL when the word is too long for a command. */
static const char *
first_word(const char *text, char *word, size_t room)
{
    size_t length = strcspn(text, " \t\r\n");
    if (length >= room)
        return NULL;
    memcpy(word, text, length);
    word[length] = '\0';
    return skip_blanks(text + length);
}

bool
command_parse(const char *line, struct command_line *out, char *why, size_t why_size)
{
    return command_parse_of(line, SCOPE_SESSION | SCOPE_VIEWER, out, why, why_size);
}

bool
command_parse_of(const char *line, int scope, struct command_line *out, char *why, size_t why_size)
{
    *out = (struct command_line){ .count = 1 };
    const char *at = skip_blanks(line);
    if (*at == '\0') {
        snprintf(why, why_size, "an empty line; help lists the commands");
        return false;
    }
    char word[48];
    const char *rest = parse_count(at, &out->count) ? at : first_word(at, word, sizeof word);
    if (rest == NULL) {
        snprintf(why, why_size, "no command is called '%.40s...'; help lists them", at);
        return false;
    }
    out->command = rest == at ? CMD_goto : find_command(word, scope, why, why_size);
    if (out->command < 0)
        return false;

    size_t length = strlen(rest);
    while (length > 0 && isspace((unsigned char)rest[length - 1]))
        length--;
    if (length >= sizeof out->rest) {
        snprintf(why, why_size, "%s: more than %zu characters of arguments", commands[out->command].name,
                 sizeof out->rest - 1);
        return false;
    }
    memcpy(out->rest, rest, length);
    out->has_count = parse_count(out->rest, &out->count);
    return arguments_fit(out, why, why_size);
}

/* By group, in the order in which the groups first come. */
void
commands_help(struct str *out, int scope)
{
    for (int first = 0; first < CMD_COUNT; first++) {
        const char *group = commands[first].group;
        bool seen = (commands[first].scope & scope) == 0;
        for (int i = 0; i < first; i++)
            seen |= (commands[i].scope & scope) != 0 && strcmp(commands[i].group, group) == 0;
        if (seen)
            continue;
        str_addf(out, "%s\n", group);
        for (int i = first; i < CMD_COUNT; i++) {
            const struct command_info *info = &commands[i];
            if ((info->scope & scope) == 0 || strcmp(info->group, group) != 0)
                continue;
            char call[96];
            snprintf(call, sizeof call, "%s %s", info->name, info->args);
            str_addf(out, "  %-12s %-34s %s\n", info->keys, call, info->help);
        }
    }
}
