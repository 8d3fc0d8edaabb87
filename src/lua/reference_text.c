/* Tells a topic: its signature with every argument, shapes, dtypes, what it answers, errors, PyTorch's counterpart.
 * What stands beside a function's own line is in reference.def.
 *
 * Interface: topic_tell, topic_takes, topic_line, topic_markdown. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "control/commands.h"
#include "lua/reference.h"
#include "tensor/op.h"
#include "trace/schema.h"

enum { WORD = 80, WIDTH = 80 };

struct pair { const char *names, *text; };
struct about { const char *names, *shapes, *dtypes, *answers, *errors; };

static const struct pair arguments[] = {
#define ARGUMENT(name, meaning) { name, meaning },
#define ABOUT(names, shapes, dtypes, answers, errors)
#define COUNTERPART(names, pytorch)
#define TOPIC(name, help)
#include "lua/reference.def"
#undef ARGUMENT
#undef ABOUT
#undef COUNTERPART
};
static const struct about abouts[] = {
#define ARGUMENT(name, meaning)
#define ABOUT(names, shapes, dtypes, answers, errors) { names, shapes, dtypes, answers, errors },
#define COUNTERPART(names, pytorch)
#include "lua/reference.def"
#undef ABOUT
#undef COUNTERPART
};
static const struct pair counterparts[] = {
#define ABOUT(names, shapes, dtypes, answers, errors)
#define COUNTERPART(names, pytorch) { names, pytorch },
#include "lua/reference.def"
#undef ARGUMENT
#undef ABOUT
#undef COUNTERPART
#undef TOPIC
};

static bool
in_words(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return length > 0;
    return false;
}

/* ---- arguments of a signature ---- */

struct argument_word { char name[WORD], otherwise[WORD]; };

/* Over a value: to the comma or bracket that ends it. */
static const char *
skip_value(const char *at)
{
    for (int depth = 0; *at != '\0'; at++) {
        if (strchr("({[", *at) != NULL)
            depth++;
        else if (strchr(")}]", *at) != NULL && depth-- == 0)
            return at;
        else if (*at == ',' && depth == 0)
            return at;
    }
    return at;
}

/* The next argument at or after `at`; answers what is behind it, NULL: there is none. Texts and "..." are none. */
static const char *
next_argument(const char *at, struct argument_word *out)
{
    for (; *at != '\0'; at++) {
        if (*at == '"') {
            const char *end = strchr(at + 1, '"');
            at = end != NULL ? end : at + strlen(at) - 1;
            continue;
        }
        if (!isalpha((unsigned char)*at) && *at != '_')
            continue;
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        snprintf(out->name, sizeof out->name, "%.*s", (int)length, at);
        out->otherwise[0] = '\0';
        at += length;
        if (strcmp(out->name, "function") == 0) { /* function(epoch) ... end is the argument f */
            snprintf(out->name, sizeof out->name, "f");
            return skip_value(at);
        }
        const char *value = at + strspn(at, " ");
        if (*value != '=')
            return at;
        value += 1 + strspn(value + 1, " ");
        const char *end = skip_value(value);
        snprintf(out->otherwise, sizeof out->otherwise, "%.*s", (int)(end - value), value);
        return end;
    }
    return NULL;
}

static const char *
meaning_of(const struct topic *topic, const char *argument)
{
    char        own[2 * WORD];
    const char *found = NULL, *name = topic->key;
    if (strncmp(name, "t.", 2) == 0 && strcmp(name, "t.to") != 0)
        name += 2;
    for (size_t i = 0; i < countof(arguments); i++) {
        snprintf(own, sizeof own, "%s %s", topic->key, argument);
        if (strcmp(arguments[i].names, own) == 0)
            return arguments[i].text;
        snprintf(own, sizeof own, "%s %s", name, argument);
        if (strcmp(arguments[i].names, own) == 0)
            return arguments[i].text;
        if (strcmp(arguments[i].names, argument) == 0)
            found = arguments[i].text;
    }
    return found;
}

/* ---- a line of its own for each thing ---- */

/* Broken at blanks: the first line goes on at column `at`, the others begin at `indent`. */
static void
add_words(struct str *out, size_t at, size_t indent, const char *text)
{
    bool begins = true;
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        if (!begins && at + length + 1 > WIDTH) {
            str_addf(out, "\n%*s", (int)indent, "");
            at     = indent;
            begins = true;
        }
        str_addf(out, "%s%.*s", begins ? "" : " ", (int)length, text);
        at    += length + !begins;
        begins = false;
        text  += length;
        text  += strspn(text, " \n");
    }
    str_add(out, "\n");
}

/* "  label   text" */
static void
add_wrapped(struct str *out, const char *label, size_t indent, const char *text)
{
    size_t length = strlen(label), at = 2 + (length < indent ? indent : length + 2);
    str_addf(out, "  %-*s", (int)(at - 2), label);
    add_words(out, at, 2 + indent, text);
}

static void
add_argument(const struct topic *topic, const struct argument_word *argument, const char *label, size_t indent,
             struct str *out)
{
    char        text[512];
    const char *meaning = meaning_of(topic, argument->name);
    snprintf(text, sizeof text, "%s%s%s%s", meaning != NULL ? meaning : "", argument->otherwise[0] != '\0' ? " (" : "",
             argument->otherwise, argument->otherwise[0] != '\0' ? " unless given)" : "");
    add_wrapped(out, label, indent, text);
}

bool
topic_takes(const struct topic *topic, const char *argument, struct str *out)
{
    struct argument_word found;
    if (topic->kind != TOPIC_FUNCTION)
        return false;
    const char *first = topic->signature + strcspn(topic->signature, "({");
    for (const char *at = first; (at = next_argument(at, &found)) != NULL;) {
        if (strcmp(found.name, argument) != 0)
            continue;
        if (out != NULL)
            add_argument(topic, &found, topic->name, strlen(topic->name) + 2, out);
        return true;
    }
    return false;
}

static void
add_arguments(const struct topic *topic, struct str *out)
{
    struct argument_word argument;
    size_t               indent = 8, from = out->len > 0 ? out->len - 1 : 0;
    if (topic->kind != TOPIC_FUNCTION)
        return;
    const char *first = topic->signature + strcspn(topic->signature, "({");
    for (const char *at = first; (at = next_argument(at, &argument)) != NULL;)
        if (strlen(argument.name) + 2 > indent)
            indent = strlen(argument.name) + 2;
    for (const char *at = first; (at = next_argument(at, &argument)) != NULL;) {
        char told[WORD + 4];
        snprintf(told, sizeof told, "\n  %s ", argument.name);
        if (strcmp(argument.name, "or") != 0 && strstr(str_text(out) + from, told) == NULL)
            add_argument(topic, &argument, argument.name, indent, out);
    }
    if (out->len > from + 1)
        str_add(out, "\n");
}

/* ---- what is said of families ---- */

static const struct about *
about_of(const struct topic *topic)
{
    char        plain[WORD];
    const char *name = strncmp(topic->key, "t.", 2) == 0 ? topic->key + 2 : topic->key;
    size_t      length = strlen(name);
    snprintf(plain, sizeof plain, "%.*s", (int)(length > 0 && name[length - 1] == '_' ? length - 1 : length), name);
    for (size_t i = 0; i < countof(abouts); i++)
        if (in_words(abouts[i].names, topic->key) || in_words(abouts[i].names, plain))
            return &abouts[i];
    return NULL;
}

static bool
is_in_place(const struct topic *topic)
{
    return topic->kind == TOPIC_FUNCTION && strncmp(topic->key, "t.", 2) == 0 &&
           topic->key[strlen(topic->key) - 1] == '_';
}

/* A module and its function share a row, which tells what the module answers. */
static const char *
answers_of(const struct topic *topic, const struct about *about)
{
    bool function = strncmp(topic->key, "nn.functional.", 14) == 0;
    return function && strcmp(about->answers, "a module; called, a Tensor") == 0 ? "a Tensor" : about->answers;
}

static void
add_about(const struct topic *topic, struct str *out)
{
    const struct about *about = about_of(topic);
    bool                in_place = is_in_place(topic);
    if (about != NULL && about->shapes[0] != '\0')
        add_wrapped(out, "Shapes", 9, about->shapes);
    if (about != NULL && about->dtypes[0] != '\0')
        add_wrapped(out, "Dtypes", 9, in_place ? "t's" : about->dtypes);
    if (in_place)
        add_wrapped(out, "Answers", 9, "t, changed in place");
    else if (about != NULL && about->answers[0] != '\0')
        add_wrapped(out, "Answers", 9, answers_of(topic, about));
    if (in_place)
        add_wrapped(out, "Errors", 9, "RuntimeError: a leaf that requires gradients, a result that t's dtype or shape "
                                      "cannot hold");
    else if (about != NULL && about->errors[0] != '\0')
        add_wrapped(out, "Errors", 9, about->errors);
}

/* "torch.nn.Linear"; "" for what is Ringside's own. */
static void
counterpart_of(const struct topic *topic, char *out, size_t size)
{
    static const struct { const char *ours, *theirs; } spaces[] = {
        { "t.", "torch.Tensor." }, { "m.", "torch.nn.Module." }, { "dist.", "torch.distributed." },
        { "work.", "torch.distributed.Work." }, { "group.", "torch.distributed.ProcessGroup." },
        { "opt.", "torch.optim.Optimizer." },
        { "scheduler.", "torch.optim.lr_scheduler._LRScheduler." }, { "s.", "torch.cuda.Stream." },
        { "e.", "torch.cuda.Event." }, { "fn.", "torch.autograd.graph.Node." },
        { "handle.", "torch.utils.hooks.RemovableHandle." }, { "ctx.", "torch.autograd.function.FunctionCtx." },
        { "bucket.", "torch.distributed.GradBucket." }, { "fut.", "torch.futures.Future." },
        { "loader.", "torchdata.stateful_dataloader.StatefulDataLoader." },
        { "PeriodicModelAverager.", "torch.distributed.algorithms.model_averaging.averagers.PeriodicModelAverager." },
        { "HierarchicalModelAverager.",
          "torch.distributed.algorithms.model_averaging.hierarchical_model_averager.HierarchicalModelAverager." },
        { "PowerSGDState.", "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState." },
        { "PostLocalSGDOptimizer.", "torch.distributed.optim.PostLocalSGDOptimizer." },
        { "ddp.", "torch.nn.parallel.DistributedDataParallel." }, { "dp.", "torch.nn.DataParallel." },
        { "list.", "torch.nn.ModuleList." }, { "dict.", "torch.nn.ModuleDict." }, { "g.", "torch.Generator." },
        { "sampler.", "torch.utils.data.DistributedSampler." }, { "sequence.", "torch.nn.utils.rnn.PackedSequence." },
    };
    for (size_t i = 0; i < countof(counterparts); i++)
        if (in_words(counterparts[i].names, topic->key)) {
            snprintf(out, size, "%s", counterparts[i].text);
            return;
        }
    if (strncmp(topic->key, "trace.", 6) == 0 || strncmp(topic->key, "data.", 5) == 0) {
        out[0] = '\0';
        return;
    }
    for (size_t i = 0; i < countof(spaces); i++)
        if (strncmp(topic->key, spaces[i].ours, strlen(spaces[i].ours)) == 0) {
            snprintf(out, size, "%s%s", spaces[i].theirs, topic->key + strlen(spaces[i].ours));
            return;
        }
    snprintf(out, size, "torch.%s", topic->key);
}

/* ---- the kinds of topics ---- */

static void
add_counterpart(const struct topic *topic, struct str *out)
{
    char name[2 * WORD];
    counterpart_of(topic, name, sizeof name);
    add_wrapped(out, "PyTorch", 9, name[0] != '\0' ? name : "none: Ringside's own");
}

static void
add_op(const struct topic *topic, int number, struct str *out)
{
    const struct op_info *info = op_info((enum op)number);
    char                  text[256];
    snprintf(text, sizeof text, "%s, %s%s%s%s", info->name,
             info->node[0] != '\0' ? "records " : "not differentiable", info->node,
             info->module[0] != '\0' ? "; its price is that of " : "", info->module);
    add_wrapped(out, topic->kind == TOPIC_OP ? "Node" : "Op", 9, topic->kind == TOPIC_OP ? text + strlen(info->name) + 2
                                                                                        : text);
}

/* The comment above a stage's function, without its stars. */
static void
comment_of(const char *text, char *out, size_t size)
{
    size_t      used = 0;
    const char *end  = strncmp(text, "/*", 2) == 0 ? strstr(text, "*/") : NULL;
    out[0]           = '\0';
    if (end == NULL)
        return;
    for (text += 2; text < end && used + 2 < size; text++) {
        bool star = *text == '*' && (text[-1] == ' ' || text[-1] == '\n');
        if (!star)
            out[used++] = *text;
    }
    while (used > 0 && isspace((unsigned char)out[used - 1]))
        used--;
    out[used] = '\0';
}

static void
tell_event(const struct topic *topic, struct str *out)
{
    const struct kind_info  *kind = &kind_table[topic->number];
    const struct stage_text *text = &stage_text_table[topic->number];
    char                     comment[2000], place[256];
    comment_of(text->text, comment, sizeof comment);
    add_wrapped(out, "", 2, comment);
    add_wrapped(out, "Kind", 9, kind->is_stage ? "a stage: a begin and an end" : "a point: it has no length");
    if (kind->args[0] != '\0')
        add_wrapped(out, "Args", 9, kind->args);
    if (kind->pytorch[0] != '\0')
        add_wrapped(out, "PyTorch", 9, kind->pytorch);
    snprintf(place, sizeof place, "%s:%u, %s", text->file, (unsigned)text->line, kind->function);
    add_wrapped(out, "Source", 9, place);
}

static void
tell_command(const struct topic *topic, struct str *out)
{
    const struct command_info *command = command_info(topic->number);
    add_wrapped(out, "", 2, command->help);
    if (command->keys[0] != '\0')
        add_wrapped(out, "Keys", 9, command->keys);
    add_wrapped(out, "Where", 9, command->scope & SCOPE_SESSION ? "ringside step, also in --batch" : "the viewer");
}

void
topic_tell(const struct topic *topic, struct str *out)
{
    if (topic->kind == TOPIC_OP) {
        int inputs = op_info((enum op)topic->number)->inputs;
        str_addf(out, "%s, an op of %d tensor%s\n", topic->name, inputs, inputs == 1 ? "" : "s");
    }
    else if (topic->kind == TOPIC_EVENT)
        str_addf(out, "%s, a kind of event\n", topic->name);
    else if (topic->kind == TOPIC_COMMAND)
        str_addf(out, "%s%s%s, a command of the debugger\n", topic->name,
                 command_info(topic->number)->args[0] != '\0' ? " " : "", command_info(topic->number)->args);
    else
        add_words(out, 0, 4, topic->signature);
    if (topic->other != NULL)
        add_words(out, 0, 4, topic->other);
    if (topic->kind == TOPIC_EVENT) {
        tell_event(topic, out);
        return;
    }
    if (topic->kind == TOPIC_COMMAND) {
        tell_command(topic, out);
        return;
    }
    add_wrapped(out, "", 2, topic->help);
    if (topic->kind == TOPIC_WORD)
        return;
    add_arguments(topic, out);
    add_about(topic, out);
    int op = topic->kind == TOPIC_OP ? topic->number : op_find(topic->key);
    if (op >= 0)
        add_op(topic, op, out);
    if (topic->kind != TOPIC_OP)
        add_counterpart(topic, out);
}

void
topic_line(const struct topic *topic, struct str *out)
{
    char comment[2000];
    snprintf(comment, sizeof comment, "%s", topic->help);
    if (topic->kind == TOPIC_EVENT) {
        comment_of(topic->help, comment, sizeof comment);
        char  *end    = strstr(comment, ". "); /* the first sentence says what it is */
        size_t length = strlen(comment);
        if (end != NULL)
            *end = '\0';
        else if (length > 0 && comment[length - 1] == '.')
            comment[length - 1] = '\0';
    }
    add_words(out, 0, 4, topic->signature);
    add_wrapped(out, "", 2, comment);
}

void
topic_markdown(const struct topic *topic, struct str *out)
{
    struct str text = { 0 };
    topic_tell(topic, &text);
    str_addf(out, "\n### %s\n\n```\n%s```\n", topic->name, str_text(&text));
    out->broken = out->broken || !str_ok(&text);
    str_free(&text);
}
