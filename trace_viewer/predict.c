/* Interface: predict.h. */
#include "predict.h"

#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"
#include "view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Events on either side of the target among which other values are looked for. */
enum { AROUND = 4000 };

/* What can be asked of a kind, the most telling first: "" is any kind. */
static const struct { const char *kind, *argument, *words; } sentences[] = {
    { "autograd.node", "node", "Which node of the graph runs next?" },
    { "autograd.accumulate", "param", "Which parameter's gradient arrives next?" },
    { "module.forward", "module", "Which module's forward comes next?" },
    { "c10d.broadcast", "root", "The next broadcast: from which rank?" },
    { "c10d.send", "peer", "The next message: to which rank?" },
    { "c10d.recv", "peer", "The next message: from which rank?" },
    { "dp.worker", "replica", "Which replica's worker begins next?" },
    { "dp.scatter", "chunks", "The next scatter: into how many chunks?" },
    { "ddp.autograd_hook", "name", "Which parameter's hook fires next?" },
    { "", "bucket", "Which bucket does the next %s take?" },
    { "", "bytes", "How many bytes are in the next %s?" },
    { "", "tensors", "How many tensors does the next %s take?" },
    { "", "params", "How many parameters does the next %s take?" },
    { "", "device", "On which device is the next %s?" },
};

/* ---- choices ---- */

/* An argument as it is told; false: the kind has none of that name. */
static bool
print_argument(const struct model *model, size_t seq, const char *name, char out[48])
{
    const struct trace_event *event = trace_event(model->trace, seq);
    const struct trace_kind  *kind = trace_kind(model->trace, event->kind);
    for (int i = 0; i < kind->arg_count && i < 4; i++) {
        if (strcmp(kind->arg_name[i], name) != 0)
            continue;
        if (strcmp(kind->arg_type[i], "text") == 0)
            snprintf(out, 48, "%.47s", trace_text_at(model->trace, event->args[i]));
        else
            snprintf(out, 48, "%" PRId64, event->args[i]);
        return true;
    }
    return false;
}

static bool
print_rank(const struct model *model, size_t seq, const char *name, char out[48])
{
    (void)name;
    const struct trace_event *event = trace_event(model->trace, seq);
    snprintf(out, 48, "rank %d", event->rank);
    return event->rank >= 0;
}

static void
add_choice(struct predict *predict, const char *text)
{
    for (int i = 0; i < predict->count; i++)
        if (strcmp(predict->choices[i], text) == 0)
            return;
    if (predict->count < PREDICT_CHOICES && text[0] != '\0')
        snprintf(predict->choices[predict->count++], sizeof predict->choices[0], "%.47s", text);
}

static bool
is_less(const char *a, const char *b)
{
    long long x, y;
    if (sscanf(a, "%lld", &x) == 1 && sscanf(b, "%lld", &y) == 1)
        return x < y;
    return strcmp(a, b) < 0;
}

/* In their own order, so that where the answer stands says nothing. */
static void
sort_choices(struct predict *predict)
{
    char answer[48];
    memcpy(answer, predict->choices[0], sizeof answer);
    for (int i = 1; i < predict->count; i++)
        for (int k = i; k > 0 && is_less(predict->choices[k], predict->choices[k - 1]); k--) {
            char other[48];
            memcpy(other, predict->choices[k], sizeof other);
            memcpy(predict->choices[k], predict->choices[k - 1], sizeof other);
            memcpy(predict->choices[k - 1], other, sizeof other);
        }
    for (int i = 0; i < predict->count; i++)
        if (strcmp(predict->choices[i], answer) == 0)
            predict->answer = i;
}

/* The target's own value, then those of the nearest events of its kind; false: no other one is plausible. */
static bool
collect(struct predict *predict, const struct model *model, const char *name,
        bool (*print)(const struct model *model, size_t seq, const char *name, char out[48]))
{
    const struct trace_event *target = trace_event(model->trace, predict->target);
    char value[48];
    predict->count = 0;
    if (!print(model, predict->target, name, value))
        return false;
    add_choice(predict, value);
    for (size_t away = 1; away < AROUND && predict->count < PREDICT_CHOICES; away++) {
        const size_t sides[2] = { predict->target - away, predict->target + away };
        for (int side = 0; side < 2; side++) {
            if ((side == 0 && away > predict->target) || sides[side] >= model->seen)
                continue;
            const struct trace_event *event = trace_event(model->trace, sides[side]);
            if (event->kind == target->kind && event->phase != PHASE_END && print(model, sides[side], name, value))
                add_choice(predict, value);
        }
    }
    return predict->count > 1;
}

/* ---- asking ---- */

static bool
is_of_kind(const char *name, const char *kind)
{
    return kind[0] == '\0' || strcmp(name, kind) == 0;
}

static bool
find_question(struct predict *predict, const struct model *model)
{
    const char *name = model_kind(model, predict->target);
    for (size_t i = 0; i < countof(sentences); i++) {
        if (!is_of_kind(name, sentences[i].kind) || !collect(predict, model, sentences[i].argument, print_argument))
            continue;
        const char *place = strstr(sentences[i].words, "%s");
        int         head = (int)(place != NULL ? (size_t)(place - sentences[i].words) : strlen(sentences[i].words));
        snprintf(predict->words, sizeof predict->words, "%.*s%s%s", head, sentences[i].words, place != NULL ? name : "",
                 place != NULL ? place + 2 : "");
        return true;
    }
    if (!model->ranked || !collect(predict, model, "", print_rank))
        return false;
    snprintf(predict->words, sizeof predict->words, "On which rank does the next %.100s begin?", name);
    return true;
}

bool
predict_ask(struct view *view, const struct model *model, size_t target)
{
    struct predict *predict = &view->predict;
    size_t horizon = asking_horizon(&view->asking, model);
    if (!predict->on || target <= view->cursor || (horizon != NO_EVENT && target > horizon) ||
        model_work(model, target) == WORK_LESSON || model_work(model, target) == WORK_FAULT ||
        veil_hides(&view->veil, model, target))
        return false;
    predict->target = target;
    if (!find_question(predict, model))
        return false;
    sort_choices(predict);
    predict->open   = true;
    predict->from   = view->cursor;
    predict->chosen = -1;
    return true;
}

/* ---- answering ---- */

static void
resolve(struct view *view, const struct model *model, bool told)
{
    struct predict *predict = &view->predict;
    struct str      event = { 0 };
    const char     *answer = predict->choices[predict->answer];
    predict->open = false;
    view_goto(view, model, predict->target);
    view->before = predict->from;
    trace_print_event(model->trace, predict->target, &event);
    if (told && predict->chosen >= 0)
        view_say(view, "%s%s: %.300s", predict->chosen == predict->answer ? "yes, " : "no, ", answer, str_text(&event));
    else if (told)
        view_say(view, "-> %s: %.300s", answer, str_text(&event));
    str_free(&event);
}

bool
predict_key(struct view *view, const struct model *model, const char *key)
{
    struct predict *predict = &view->predict;
    if (!view_is_predicting(view))
        return false;
    int last = predict->count - 1;
    if (strcmp(key, "Enter") == 0)
        resolve(view, model, true);
    else if (strcmp(key, "Esc") == 0)
        resolve(view, model, false);
    else if (strcmp(key, "Down") == 0)
        predict->chosen = predict->chosen < last ? predict->chosen + 1 : 0;
    else if (strcmp(key, "Up") == 0)
        predict->chosen = predict->chosen > 0 ? predict->chosen - 1 : last;
    else if (key[0] >= 'a' && key[0] <= 'a' + last && key[1] == '\0')
        predict->chosen = key[0] - 'a';
    else if (key[0] >= 'a' && key[0] <= 'z' && key[1] == '\0')
        view_say(view, "a to %c choose, Enter confirms or shows it, Esc goes on without", 'a' + last);
    else
        return false;
    return true;
}
