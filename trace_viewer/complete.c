/* Words come from the tables: commands, options, panes; and from the trace: kinds and families, arguments, lanes, and
 * names of operations, modules and parameters. Interface: complete, complete_ranks. */
#include "complete.h"

#include "base/vec.h"
#include "control/commands.h"
#include "panes.h"
#include "settings.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { OFFERS_MOST = 400, TEXTS_MOST = 1 << 15, NAME_MOST = 64 };

/* Words that begin like what was typed: the letters that they all share, and the words themselves. */
struct offers {
    const char *begun;               /* and how much of the prompt it is */
    size_t      length;
    char        common[NAME_MOST + 2];
    int         count;
    char       *out;
    size_t      room;
};

static bool
is_offered(const struct offers *offers, const char *word, size_t length)
{
    for (const char *at = offers->out; (at = strstr(at, word)) != NULL; at++)
        if ((at == offers->out || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static void
offer(struct offers *offers, const char *text, size_t length)
{
    char word[NAME_MOST + 1];
    if (length == 0 || length > NAME_MOST || length < offers->length ||
        strncasecmp(text, offers->begun, offers->length) != 0 || offers->count >= OFFERS_MOST)
        return;
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (is_offered(offers, word, length))
        return;
    if (offers->count++ == 0)
        snprintf(offers->common, sizeof offers->common, "%s", word);
    size_t same = 0;
    while (offers->common[same] != '\0' && offers->common[same] == word[same])
        same++;
    offers->common[same] = '\0';
    size_t used = strlen(offers->out);
    if (used + length + 2 < offers->room)
        snprintf(offers->out + used, offers->room - used, "%s%s", used > 0 ? " " : "", word);
}

static void
offer_text(struct offers *offers, const char *text)
{
    offer(offers, text, strlen(text));
}

static void
offer_commands(struct offers *offers)
{
    for (int i = 0; i < CMD_COUNT; i++)
        offer_text(offers, command_info(i)->name);
}

/* "breaks|tasks|[all]": each of the words in small letters. */
static void
offer_words(struct offers *offers, const char *words)
{
    for (const char *at = words; *at != '\0';) {
        size_t length = strcspn(at, "|[] ");
        if (at[0] >= 'a' && at[0] <= 'z')
            offer(offers, at, length);
        at += length + (at[length] != '\0');
    }
}

static void
offer_options(struct offers *offers)
{
    for (int i = 0; i < SETTING_COUNT; i++)
        offer_text(offers, setting_info(i)->name);
    for (int i = 0; i < CMD_COUNT; i++)
        if ((command_info(i)->scope & SCOPE_VIEWER) != 0 && strchr(command_info(i)->args, '|') != NULL &&
            strchr(command_info(i)->args, ' ') == NULL)
            offer_text(offers, command_info(i)->name);
}

static void
offer_panes(struct offers *offers)
{
    offer_text(offers, "timeline");
    for (int pane = PANE_TIMELINE + 1; pane < PANE_COUNT; pane++)
        offer_text(offers, pane_kind((enum pane)pane)->name);
}

static void
offer_kinds(struct offers *offers, const struct model *model)
{
    static const char *const fields[] = { "rank", "device", "lane", "iter", "phase", "kind", "flow", "line", "depth",
                                          "seq", "and", "or", "not" };
    for (size_t kind = 1; kind < trace_kinds(model->trace); kind++) {
        const struct trace_kind *named = trace_kind(model->trace, (unsigned)kind);
        for (const char *dot = strchr(named->name, '.'); dot != NULL; dot = strchr(dot + 1, '.'))
            offer(offers, named->name, (size_t)(dot - named->name));
        offer_text(offers, named->name);
        for (int i = 0; i < named->arg_count && i < 4 && offers->length > 0; i++)
            offer_text(offers, named->arg_name[i]);
    }
    for (size_t i = 0; i < countof(fields) && offers->length > 0; i++)
        offer_text(offers, fields[i]);
}

/* Lanes and the short texts of the trace; only once a letter was typed, as there are many. */
static void
offer_names(struct offers *offers, const struct model *model)
{
    for (size_t lane = 0; lane < model->lane_count && offers->length > 0; lane++)
        offer_text(offers, trace_lane_at(model->trace, lane)->name);
    for (int64_t id = 1; id < TEXTS_MOST && offers->length > 0; id++) {
        const char *text = trace_text_at(model->trace, id);
        if (strcmp(text, "?") == 0)
            break;
        if (strpbrk(text, " \n\t\"") == NULL)
            offer_text(offers, text);
    }
}

/* What may stand behind the command. */
static void
offer_arguments(struct offers *offers, const struct model *model, const char *line, bool second)
{
    struct command_line parsed;
    char word[64], why[128];
    size_t length = strcspn(line, " ");
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), line);
    if (!command_parse(word, &parsed, why, sizeof why) && strstr(why, " needs ") == NULL)
        return;
    const char *value  = line + length + strspn(line + length, " ");
    int         option = setting_find(value, strcspn(value, " "));
    switch (parsed.command) {
    case CMD_help: case CMD_bind: offer_commands(offers); break;
    case CMD_pane: offer_panes(offers); break;
    case CMD_print: offer_names(offers, model); break;
    case CMD_set:
        if (option >= 0 && second)
            offer_words(offers, setting_info(option)->values);
        if (!second) {
            offer_options(offers);
            offer_names(offers, model);
        }
        break;
    default:
        offer_words(offers, command_info(parsed.command)->args);
        if (strstr(command_info(parsed.command)->args, "EXPR") != NULL) {
            offer_kinds(offers, model);
            offer_names(offers, model);
        }
    }
}

static void
offer_all(struct offers *offers, const struct model *model, const struct prompt *prompt, size_t from)
{
    char line[PROMPT_ROOM + 64], before[PROMPT_ROOM];
    bool colon = strcmp(prompt->title, ":") == 0, search = strcmp(prompt->title, "/") == 0;
    snprintf(before, sizeof before, "%.*s", (int)from, prompt->typed);
    snprintf(line, sizeof line, "%s%s", colon ? "" : prompt->title, before);
    if (colon && strspn(before, " ") == from) {
        offer_commands(offers);
    } else if (search) {
        offer_kinds(offers, model);
        offer_names(offers, model);
    } else {
        size_t verb = strcspn(line, " ");
        offer_arguments(offers, model, line, line[verb + strspn(line + verb, " ")] != '\0');
    }
}

void
complete(const struct model *model, struct prompt *prompt)
{
    char   begun[PROMPT_ROOM];
    size_t from = prompt->caret;
    while (from > 0 && strchr(" (=<>~!\"|", prompt->typed[from - 1]) == NULL)
        from--;
    snprintf(begun, sizeof begun, "%.*s", (int)(prompt->caret - from), prompt->typed + from);
    prompt->offers[0] = '\0';
    struct offers offers = { .begun = begun, .length = strlen(begun), .out = prompt->offers,
                             .room = sizeof prompt->offers };
    offer_all(&offers, model, prompt, from);
    if (offers.count == 0)
        return;
    bool ends = prompt->typed[prompt->caret] == '\0';
    if (offers.count == 1) {
        snprintf(offers.common + strlen(offers.common), 2, ends ? " " : "");
        prompt->offers[0] = '\0';
    }
    prompt_replace(prompt, from, offers.common);
}

void
complete_ranks(const struct model *model, char *out, size_t size)
{
    int last = -1;
    out[0] = '\0';
    for (size_t lane = 0; lane < model->lane_count; lane++) {
        int    rank = trace_lane_at(model->trace, lane)->rank;
        size_t used = strlen(out);
        if (rank > last && used + 16 < size)
            snprintf(out + used, size - used, "%s%d", used > 0 ? " " : "ranks: ", rank);
        last = rank > last ? rank : last;
    }
}
