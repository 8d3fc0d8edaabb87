/* How the debugger finds what a learner names: a local of the lesson where a rank stands, a parameter or buffer by its
 * qualified name, `result` of the stage that has just ended. The run stands still meanwhile and must not notice:
 * nothing here makes an event, waits, or touches a tensor's version.
 *
 * Interface: lesson_names. NAME is a path: fc2.weight.grad, net.0.bias, x[1,0]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/state.h"
#include "base/str.h"
#include "device/storage.h"
#include "device/real.h"
#include "lua/internal.h"
#include "lua/lesson.h"
#include "sched/debugger.h"
#include "tensor/tensor.h"
#include "trace/reader.h"
#include "trace/writer.h"

enum { NAME_LEVELS = 60 };

struct name_request {
    struct task   *me;
    struct script *script;
    char           path[200];             /* without the index */
    int64_t        index[TENSOR_DIMS];
    int            indices;
    double         value;                 /* set */
    bool           set, ok;
    struct str    *out;
};

/* What a path leads to: a tensor, a module, or the Lua value at the top of the stack. */
struct found { struct tensor *tensor; struct module *module; bool value; };

static bool
no(struct name_request *r, const char *format, const char *name)
{
    str_addf(r->out, format, name);
    return r->ok = false;
}

/* ---- elements ---- */

static bool
find_element(struct name_request *r, const struct tensor *tensor, struct access *place)
{
    int64_t offset = tensor->offset;
    if (tensor_is_sparse(tensor))
        return no(r, "%s is sparse: it has no elements", r->path);
    if (r->indices != tensor->dims && !(r->indices == 0 && tensor_count(tensor) == 1))
        return no(r, "%s needs one index per dimension", r->path);
    for (int i = 0; i < r->indices; i++) {
        int64_t at = r->index[i] < 0 ? r->index[i] + tensor->size[i] : r->index[i];
        if (at < 0 || at >= tensor->size[i])
            return no(r, "the index is outside of %s", r->path);
        offset += at * tensor->stride[i];
    }
    *place = (struct access){ .storage = tensor->storage, .begin = (uint64_t)offset * dtype_size(tensor->dtype) };
    place->end = place->begin + dtype_size(tensor->dtype);
    return mirror_fetch(r->me, place) || no(r, "the device does not give %s", r->path);
}

static void
print_element(struct name_request *r, const struct tensor *tensor)
{
    struct access place;
    if (!find_element(r, tensor, &place))
        return;
    void *element = mirror_data(tensor->storage) + place.begin;
    if (tensor->dtype == DTYPE_BOOL)
        str_add(r->out, *(bool *)element ? "True" : "False");
    else if (!dtype_is_float(tensor->dtype))
        str_addf(r->out, "%lld", (long long)dtype_whole(tensor->dtype, element));
    else
        str_addf(r->out, tensor->dtype == DTYPE_F64 ? "%.17g" : "%.9g", dtype_fraction(tensor->dtype, element));
    r->ok = true;
}

/* Who compares ranks' replicas learns of it; the task that stands here cannot fail for it. */
static void
tell_watches(struct task *me, const struct tensor *tensor)
{
    const struct storage_change change = { .access = { .storage = tensor->storage, .end = tensor->storage->bytes,
                                                       .write = true, .what = "set" },
                                           .line = me->line, .queued = true };
    (void)storage_tell_change(me, &change);
}

static void
set_element(struct name_request *r, const struct tensor *tensor)
{
    struct access place;
    if (!find_element(r, tensor, &place))
        return;
    dtype_put_fraction(tensor->dtype, mirror_data(tensor->storage) + place.begin, r->value);
    if (!mirror_store(r->me, &place)) {
        no(r, "the device does not take %s", r->path);
        return;
    }
    tell_watches(r->me, tensor);
    str_addf(r->out, "%s is changed", r->path);
    r->ok = true;
}

static void
answer_tensor(struct name_request *r, struct tensor *tensor)
{
    if (tensor == NULL || tensor->storage == NULL)
        no(r, "%s is nil", r->path);
    else if (r->set)
        set_element(r, tensor);
    else if (r->indices > 0)
        print_element(r, tensor);
    else {
        tensor_print(r->me, tensor, r->out);
        r->ok = true;
    }
}

/* ---- parameters by qualified name ---- */

static struct tensor *
in_list(const struct named_tensors *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return list->tensors[i];
    return NULL;
}

/* NULL: this module has none of that name. */
static struct tensor *
qualified(struct task *me, struct module *module, const char *name)
{
    struct named_tensors list = { 0 };
    struct error         before = me->error;
    struct tensor       *tensor = NULL;
    if (module_named_parameters(me, module, &list))
        tensor = in_list(&list, name);
    named_tensors_free(me, &list);
    list = (struct named_tensors){ 0 };
    if (tensor == NULL && module_named_buffers(me, module, &list))
        tensor = in_list(&list, name);
    named_tensors_free(me, &list);
    me->error = before;
    return tensor;
}

/* Of all modules that the script holds, the one made first decides. `name` may end in ".grad". */
static struct tensor *
find_parameter(lua_State *L, struct name_request *r)
{
    char           name[sizeof r->path];
    struct tensor *found = NULL;
    uint32_t       first = UINT32_MAX;
    snprintf(name, sizeof name, "%s", r->path);
    size_t length = strlen(name);
    bool   grad   = length > 5 && strcmp(name + length - 5, ".grad") == 0;
    if (grad)
        name[length - 5] = '\0';
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "ringside.live");
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
        struct module *module = lua_isuserdata(L, -1) ? test_module(L, -1) : NULL;
        if (module == NULL || module->is_replica)
            continue;
        const struct box *box    = lua_touserdata(L, -1);
        struct tensor    *tensor = box->serial < first ? qualified(r->me, module, name) : NULL;
        if (tensor == NULL)
            continue;
        found = tensor;
        first = box->serial;
    }
    lua_pop(L, 1);
    return found != NULL && grad ? found->grad : found;
}

/* ---- paths ---- */

static struct found
of_value(lua_State *L)
{
    struct found found = { .tensor = test_tensor(L, -1), .module = test_module(L, -1) };
    found.value        = found.tensor == NULL && found.module == NULL;
    return found;
}

/* One step along the path; false: there is no such part. */
static bool
path_step(lua_State *L, struct found *at, const char *part)
{
    struct found next = { 0 };
    if (at->tensor != NULL && strcmp(part, "grad") == 0) {
        next.tensor = at->tensor->grad;
    } else if (at->module != NULL) {
        next.tensor = module_parameter(at->module, part);
        if (next.tensor == NULL)
            next.tensor = module_buffer(at->module, part);
        next.module = module_child(at->module, part);
    } else if (at->value && lua_istable(L, -1)) {
        char *end;
        long  number = strtol(part, &end, 10);
        if (*end == '\0')
            lua_rawgeti(L, -1, number);
        else {
            lua_pushstring(L, part);
            lua_rawget(L, -2);
        }
        next = of_value(L);
        next.value = next.value && !lua_isnil(L, -1);
    }
    *at = next;
    return next.tensor != NULL || next.module != NULL || next.value;
}

/* Follows the path behind its first part, whose value is at the top. */
static bool
follow(lua_State *L, const char *path, struct found *at)
{
    *at  = of_value(L);
    path = strchr(path, '.');
    while (path != NULL) {
        char        part[100];
        const char *next = strchr(path + 1, '.');
        snprintf(part, sizeof part, "%.*s", next != NULL ? (int)(next - path - 1) : 99, path + 1);
        luaL_checkstack(L, 8, "path too long");
        if (!path_step(L, at, part))
            return false;
        path = next;
    }
    return true;
}

/* Argument 1: the request; 2: the value of the path's first part, nil: no local has that name. */
static int
resolve(lua_State *L)
{
    struct name_request *r = lua_touserdata(L, 1);
    struct found    at = { 0 };
    char            first[100];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(r->path, "."), r->path);
    if (lua_isnil(L, 2)) {
        lua_pushglobaltable(L);
        lua_pushstring(L, first);
        lua_rawget(L, -2);
    }
    if (!lua_isnil(L, -1) && follow(L, r->path, &at)) {
        if (at.tensor != NULL)
            answer_tensor(r, at.tensor);
        else if (r->set)
            no(r, "%s is no tensor: set changes one element of a tensor", r->path);
        else if (at.module != NULL)
            module_print(at.module, r->out);
        else {
            push_text(L, lua_gettop(L));
            str_add(r->out, lua_tostring(L, -1));
        }
        r->ok = r->ok || (!r->set && at.tensor == NULL);
        return 0;
    }
    struct tensor *parameter = find_parameter(L, r);
    if (parameter != NULL)
        answer_tensor(r, parameter);
    else
        no(r, "nothing here is called %s, or it is nil", r->path);
    return 0;
}

/* ---- locals ---- */

/* Pushes the local or upvalue `name` of the innermost function that has one. false: none, nothing pushed. Nothing here
 * allocates: an error could not be caught on this thread. */
static bool
push_local(lua_State *L, const char *name)
{
    lua_Debug   ar;
    const char *found;
    if (!lua_checkstack(L, 8))
        return false;
    for (int level = 0; level < NAME_LEVELS && lua_getstack(L, level, &ar); level++) {
        int last = 0;
        lua_getinfo(L, "S", &ar);
        if (ar.what[0] == 'C')
            continue;
        for (int n = 1; (found = lua_getlocal(L, &ar, n)) != NULL; n++) {
            if (strcmp(found, name) == 0)
                last = n;
            lua_pop(L, 1);
        }
        if (last > 0)
            return lua_getlocal(L, &ar, last) != NULL;
        lua_getinfo(L, "f", &ar);
        for (int n = 1; (found = lua_getupvalue(L, -1, n)) != NULL; n++) {
            if (strcmp(found, name) == 0) {
                lua_remove(L, -2);
                return true;
            }
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    return false;
}

static lua_State *
where_it_stands(const struct name_request *r)
{
    const struct visit *visit = (const struct visit *)(uintptr_t)r->me->slots[SLOT_LUA];
    if (visit == NULL || visit->script != r->script || visit->L == NULL)
        visit = &r->script->visit;
    return visit->L != NULL ? visit->L : r->script->L;
}

static bool
answer_name(struct name_request *r)
{
    lua_State *L = where_it_stands(r), *door = r->script->door;
    char       first[100];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(r->path, "."), r->path);
    bool local = push_local(L, first);
    if (!lua_checkstack(door, 8)) {
        if (local)
            lua_pop(L, 1);
        return no(r, "no memory to look for %s", r->path);
    }
    lua_pushcfunction(door, resolve);
    lua_pushlightuserdata(door, r);
    if (local)
        lua_xmove(L, door, 1);
    else
        lua_pushnil(door);
    if (lua_pcall(door, 2, 0, 0) != LUA_OK) {
        lua_pop(door, 1);
        return no(r, "%s cannot be shown", r->path);
    }
    return r->ok;
}

/* ---- result ---- */

/* A snapshot as the tensor that it was. */
static void
print_snapshot(struct name_request *r, const struct trace_snapshot *snapshot)
{
    struct storage block = { .device = DEVICE_CPU, .bytes = snapshot->bytes };
    struct tensor  shown = { .dtype = (enum dtype)snapshot->dtype, .dims = snapshot->dims, .storage = &block };
    block.data           = malloc(snapshot->bytes + 1);
    if (block.data == NULL)
        return;
    memcpy(block.data, snapshot->elements, snapshot->bytes);
    for (int i = 0; i < shown.dims; i++)
        shown.size[i] = snapshot->sizes[i];
    row_major_strides(shown.dims, shown.size, shown.stride);
    answer_tensor(r, &shown);
    free(block.data);
}

/* The storage that an event names; 0: none, or it only lets one go. */
static int64_t
named_storage(const struct trace *trace, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    const struct trace_kind  *kind  = trace_kind(trace, event->kind);
    if (strcmp(kind->name, "memory.free") == 0 || event->phase == PHASE_BEGIN)
        return 0;
    for (int i = 0; i < kind->arg_count; i++)
        if (strcmp(kind->arg_type[i], "storage") == 0)
            return event->args[i];
    return 0;
}

/* What the last event names, or, if it ends a stage, the last that was named within. 0: nothing. */
static int64_t
result_storage(struct trace *trace)
{
    size_t  last    = trace_count(trace) - 1, begin = last;
    int64_t storage = named_storage(trace, last);
    if (trace_event(trace, last)->phase == PHASE_END)
        begin = trace_partner(trace, last);
    for (size_t seq = last; storage == 0 && begin != SIZE_MAX && seq > begin; seq--)
        if (trace_event(trace, seq)->lane == trace_event(trace, last)->lane)
            storage = named_storage(trace, seq);
    return storage;
}

static bool
print_result(struct name_request *r, struct trace *trace)
{
    struct trace_snapshot snapshot;
    size_t                count   = trace_count(trace);
    int64_t               storage = count > 0 ? result_storage(trace) : 0, id = 0;
    struct state         *state   = storage != 0 ? state_new(trace) : NULL;
    if (state != NULL && state_seek(state, count - 1))
        id = state_snapshot(state, storage, NULL);
    state_free(state);
    if (storage == 0)
        return no(r, "%s: this stage made no tensor", "result");
    if (id == 0 || !trace_snapshot_at(trace, id, &snapshot))
        return no(r, "%s: not in the trace yet (its kernel has not run), or larger than 4096 bytes", "result");
    print_snapshot(r, &snapshot);
    return r->ok;
}

static bool
answer_result(struct name_request *r)
{
    char                 why[200];
    struct trace_writer *writer = sched_writer(r->me->sched);
    struct trace        *trace  = writer != NULL ? trace_open_live(writer, why, sizeof why) : NULL;
    if (trace == NULL)
        return no(r, "%s: the trace cannot be read", "result");
    bool ok = print_result(r, trace);
    trace_release(trace);
    return ok;
}

/* ---- the debugger's table ---- */

/* "[1, -2]" at `text`; answers what follows it, NULL: not an index. */
static const char *
read_path_index(const char *text, struct name_request *r)
{
    while (*text == '[') {
        do {
            char *end;
            text++;
            if (r->indices == TENSOR_DIMS)
                return NULL;
            r->index[r->indices++] = strtoll(text, &end, 10);
            if (end == text)
                return NULL;
            text = end + strspn(end, " ");
        } while (*text == ',');
        if (*text++ != ']')
            return NULL;
    }
    return text;
}

/* "[rank R] NAME[INDEX]" into the request; answers what is behind it, NULL: it says no name. */
static const char *
read_name(struct lesson *lesson, const char *text, struct name_request *r)
{
    int    rank = r->me->rank, taken = 0;
    text += strspn(text, " ");
    if (sscanf(text, "rank %d %n", &rank, &taken) == 1 && taken > 0)
        text += taken;
    size_t length = strcspn(text, " [");
    if (length == 0 || length >= sizeof r->path)
        return NULL;
    snprintf(r->path, sizeof r->path, "%.*s", (int)length, text);
    text = read_path_index(text + length, r);
    r->script = lesson_script(lesson, rank);
    if (r->script == NULL && taken == 0)
        r->script = lesson_script(lesson, -1);
    return text;
}

static bool
names_print(void *context, struct task *me, const char *expression, struct str *out)
{
    struct name_request r    = { .me = me, .out = out };
    const char    *rest = read_name(context, expression, &r);
    if (rest == NULL || rest[strspn(rest, " ")] != '\0')
        return no(&r, "print takes a name, e.g. print rank 1 fc2.weight.grad%s", "");
    if (strcmp(r.path, "result") == 0)
        return answer_result(&r);
    if (r.script == NULL)
        return no(&r, "%s: that rank has no script now", r.path);
    return answer_name(&r);
}

static bool
names_set(void *context, struct task *me, const char *assignment, struct str *out)
{
    struct name_request r    = { .me = me, .out = out, .set = true };
    const char    *rest = read_name(context, assignment, &r);
    char          *end  = NULL;
    if (rest != NULL)
        r.value = strtod(rest, &end);
    if (rest == NULL || end == rest || end[strspn(end, " ")] != '\0')
        return no(&r, "set takes a name, an index and a number, e.g. set fc1.weight[0,0] 1.5%s", "");
    if (r.script == NULL)
        return no(&r, "%s: that rank has no script now", r.path);
    return answer_name(&r);
}

struct debugger_names
lesson_names(struct lesson *lesson)
{
    return (struct debugger_names){ .context = lesson, .print = names_print, .set = names_set };
}
