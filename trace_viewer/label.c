/* What an event is called on the timeline: its own words where it has some ("Linear", "mm", "AddmmBackward"), else
 * the end of its kind's name ("replicate"). Interface: model_label, model_label_arguments. */
#include "model.h"

#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <string.h>

/* How kinds are called that say more by their arguments than by their names. %TEXT is an argument's text, #NUMBER
 * an argument's number. */
static const struct { const char *kind, *pattern; } patterns[] = {
    { "op", "%op" },
    { "kernel", "%op" },
    { "module.forward", "%module" },
    { "autograd.node", "%node" },
    { "autograd.accumulate", "grad %param" },
    { "autograd.hook", "hook %node" },
    { "autograd.checkpoint", "checkpoint #checkpoint" },
    { "autograd.recompute", "recompute #checkpoint" },
    { "memory.copy", "copy #from>#to" },
    { "lock.wait", "wait %lock" },
    { "task.join", "wait join" },
    { "c10d.wait", "wait %operation" },
    { "c10d.store.wait", "wait %key" },
    { "c10d.rendezvous", "wait rendezvous" },
    { "c10d.monitored_barrier", "wait monitored_barrier" },
    { "c10d.reduce", "reduce to r#root" },
    { "c10d.gather", "gather to r#root" },
    { "c10d.scatter", "scatter from r#root" },
    { "stream.synchronize", "wait stream" },
    { "comm.hop", "c#chunk to r#peer" },
    { "comm.receive", "chunk #chunk from r#peer" },
    { "dp.worker", "worker #replica" },
    { "c10d.send", "send r#peer" },
    { "c10d.recv", "recv r#peer" },
    { "ddp.all_reduce_bucket", "allreduce b#bucket" },
    { "ddp.mark_bucket_ready", "bucket #bucket ready" },
    { "ddp.mark_variable_ready", "ready %name" },
};

static void
expand_label(const struct model *model, size_t seq, const char *pattern, struct str *out)
{
    while (*pattern != '\0') {
        size_t plain = strcspn(pattern, "%#");
        str_add_bytes(out, pattern, plain);
        pattern += plain;
        if (*pattern == '\0')
            break;
        bool text = *pattern++ == '%';
        size_t length = strcspn(pattern, " >%#");
        char name[32];
        if (length >= sizeof name)
            break;
        memcpy(name, pattern, length);
        name[length] = '\0';
        pattern += length;
        int64_t value;
        if (text)
            str_add(out, model_argument_text(model, seq, name));
        else if (model_argument(model, seq, name, &value))
            str_addf(out, value < 0 ? "cpu" : "%lld", (long long)value);
    }
}

void
model_label(const struct model *model, size_t seq, struct str *out)
{
    const char *kind = model_kind(model, seq);
    for (size_t i = 0; i < countof(patterns); i++)
        if (strcmp(patterns[i].kind, kind) == 0) {
            size_t before = out->len;
            expand_label(model, seq, patterns[i].pattern, out);
            if (out->len > before)
                return;
        }
    const char *dot = strrchr(kind, '.');
    const char *name = dot != NULL && dot[1] != '\0' ? dot + 1 : kind;
    if (strcmp(kind, "dp.gather.backward") == 0 || strcmp(kind, "dp.scatter.chunk") == 0)
        name = kind + 3;
    str_add(out, name);
}

/* Whether the pattern names the argument. */
static bool
pattern_has(const char *pattern, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = pattern; (at = strpbrk(at, "%#")) != NULL; at++)
        if (strncmp(at + 1, name, length) == 0 && strcspn(at + 1, " >%#") == length)
            return true;
    return false;
}

uint8_t
model_label_arguments(const struct model *model, unsigned kind)
{
    const struct trace_kind *named = trace_kind(model->trace, kind);
    uint8_t arguments = 0;
    for (size_t i = 0; i < countof(patterns); i++)
        for (int j = 0; j < named->arg_count && j < 4 && strcmp(patterns[i].kind, named->name) == 0; j++)
            if (pattern_has(patterns[i].pattern, named->arg_name[j]))
                arguments |= (uint8_t)(1u << j);
    return arguments;
}
