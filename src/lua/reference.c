/* Collects every topic of the reference and finds them by name: functions from the registry where each namespace has
 * noted them, ops, events and commands from their .def files.
 *
 * Interface: reference_answer, reference_answer_from. */
#include "lua/reference.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/nearest.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/commands.h"
#include "lua/mistakes.h"
#include "lua/shelf.h"
#include "sched/task.h"
#include "tensor/op.h"
#include "trace/schema.h"

enum { KEY_BYTES = 160, TAKERS = 6 /* functions that are told to take an argument */ };

struct reference { struct arena arena; struct topic *topics; size_t count, room; bool broken; };

/* ---- names ---- */

/* "images, labels = rs.data.digits{...}" is called rs.data.digits. */
static void
name_of(const char *signature, char *out, size_t size)
{
    size_t end = strcspn(signature, "({"), start = end;
    while (start > 0 && (isalnum((unsigned char)signature[start - 1]) || strchr("_.:", signature[start - 1]) != NULL))
        start--;
    snprintf(out, size, "%.*s", (int)(end - start), signature + start);
}

/* What a name is looked up by: no rs. before it, no colons, our short words for what may be written longer. */
static void
key_of(const char *name, char *out, size_t size)
{
    static const char *const longer[][2] = {
        { "rs.", "" }, { "torch.", "" }, { "distributed.", "dist." }, { "F.", "nn.functional." },
        { "Tensor.", "t." }, { "tensor.", "t." }, { "module:", "m." }, { "module.", "m." }, { "Module.", "m." },
        { "lr_scheduler.", "optim.lr_scheduler." }, { "init.", "nn.init." },
    };
    const char *before = "";
    for (size_t i = 0; i < countof(longer); i++) {
        if (strncmp(name, longer[i][0], strlen(longer[i][0])) != 0)
            continue;
        name += strlen(longer[i][0]);
        before = longer[i][1];
    }
    snprintf(out, size, "%s%s", before, name);
    for (char *at = out; *at != '\0'; at++)
        if (*at == ':')
            *at = '.';
}

/* "nn.functional" of nn.functional.relu, "rs" of what lies in rs itself. */
static void
space_of(const struct topic *topic, const char *key, char *out, size_t size)
{
    static const char *const of_kind[] = { [TOPIC_OP] = "ops", [TOPIC_EVENT] = "events", [TOPIC_COMMAND] = "commands" };
    const char *dot = strrchr(key, '.');
    if (topic->kind == TOPIC_FUNCTION || topic->kind == TOPIC_FIELD || topic->kind == TOPIC_WORD)
        snprintf(out, size, "%.*s", dot != NULL ? (int)(dot - key) : 2, dot != NULL ? key : "rs");
    else
        snprintf(out, size, "%s", of_kind[topic->kind]);
}

/* ---- collecting ---- */

static void
add_topic(struct reference *reference, struct topic topic)
{
    char name[KEY_BYTES], key[KEY_BYTES], space[KEY_BYTES];
    if (topic.name == NULL) {
        name_of(topic.signature, name, sizeof name);
        topic.name = arena_text(&reference->arena, name);
    }
    key_of(topic.name != NULL ? topic.name : "", key, sizeof key);
    space_of(&topic, key, space, sizeof space);
    topic.key       = arena_text(&reference->arena, key);
    topic.space     = arena_text(&reference->arena, space);
    topic.signature = arena_text(&reference->arena, topic.signature);
    topic.help      = arena_text(&reference->arena, topic.help);
    bool copied = topic.name != NULL && topic.key != NULL && topic.space != NULL && topic.signature != NULL &&
                  topic.help != NULL;
    if (!copied ||
        !vec_room(&reference->topics, &reference->room, reference->count + 1, sizeof *reference->topics))
        reference->broken = true;
    else
        reference->topics[reference->count++] = topic;
}

static void
add_functions(lua_State *L, struct reference *reference)
{
    push_notes(L);
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING)
            add_topic(reference, (struct topic){ .signature = lua_tostring(L, -2), .help = noted_help(L, -1) });
    }
    lua_pop(L, 1);
}

static bool
has_key(const struct reference *reference, const char *name)
{
    char key[KEY_BYTES];
    key_of(name, key, sizeof key);
    for (size_t i = 0; i < reference->count; i++)
        if (strcmp(reference->topics[i].key, key) == 0)
            return true;
    return false;
}

/* Of the table at the top: functions that stand under another name than the one that they noted. */
static void
add_second_names(lua_State *L, struct reference *reference, const char *space)
{
    int         table = lua_gettop(L);
    const char *help  = NULL;
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_settop(L, table + 1)) {
        char name[KEY_BYTES], signature[2 * KEY_BYTES];
        if (lua_type(L, -2) != LUA_TSTRING || !lua_isfunction(L, -1))
            continue;
        snprintf(name, sizeof name, "%s%s", space, lua_tostring(L, -2));
        if (has_key(reference, name) || !push_noted(L, &help))
            continue;
        snprintf(signature, sizeof signature, "%s, the same as %s", name, lua_tostring(L, -1));
        add_topic(reference, (struct topic){ .name = arena_text(&reference->arena, name), .signature = signature,
                                             .help = help });
    }
    lua_settop(L, table);
}

static void
add_aliases(lua_State *L, struct reference *reference)
{
    int top = lua_gettop(L);
    push_ringside(L);
    add_second_names(L, reference, "rs.");
    lua_getfield(L, -1, "nn");
    lua_getfield(L, -1, "functional");
    add_second_names(L, reference, "nn.functional.");
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_second_names(L, reference, "t:");
    lua_settop(L, top);
}

/* rs.float32 is the text "float32": what equals its own name is a dtype. */
static void
add_dtypes(lua_State *L, struct reference *reference)
{
    push_ringside(L);
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING || !lua_rawequal(L, -1, -2))
            continue;
        char name[KEY_BYTES], help[KEY_BYTES];
        snprintf(name, sizeof name, "rs.%s", lua_tostring(L, -1));
        snprintf(help, sizeof help, "the dtype, as the text \"%s\"", lua_tostring(L, -1));
        add_topic(reference, (struct topic){ .kind = TOPIC_FIELD, .signature = name, .help = help });
    }
    lua_pop(L, 1);
}

static void
add_tables(struct reference *reference)
{
    static const struct { const char *name, *help; } fields[] = {
#define ARGUMENT(name, meaning)
#define ABOUT(names, shapes, dtypes, answers, errors)
#define COUNTERPART(names, pytorch)
#define TOPIC(name, help) { name, help },
#include "lua/reference.def"
#undef TOPIC
#undef COUNTERPART
#undef ABOUT
#undef ARGUMENT
    };
    for (size_t i = 0; i < countof(fields); i++)
        add_topic(reference, (struct topic){ .kind = TOPIC_FIELD, .name = fields[i].name,
                                             .signature = fields[i].name, .help = fields[i].help });
    for (int i = 0; i < OP_COUNT; i++)
        add_topic(reference, (struct topic){ .kind = TOPIC_OP, .number = i, .name = op_info((enum op)i)->name,
                                             .signature = op_info((enum op)i)->name,
                                             .help = op_info((enum op)i)->help });
    for (int i = KIND_NONE + 1; i < KIND_COUNT; i++)
        add_topic(reference, (struct topic){ .kind = TOPIC_EVENT, .number = i, .name = kind_table[i].name,
                                             .signature = kind_table[i].name, .help = stage_text_table[i].text });
    for (int i = 0; i < CMD_COUNT; i++)
        add_topic(reference, (struct topic){ .kind = TOPIC_COMMAND, .number = i, .name = command_info(i)->name,
                                             .signature = command_info(i)->name, .help = command_info(i)->help });
}

static void
add_words(struct reference *reference)
{
    static const struct { const char *name, *told, *help; } words[] = {
#define WORD(space, word, help) { space "." word, word, help },
#define MEANS(word, name)
#include "lua/words.def"
#undef MEANS
#undef WORD
    };
    for (size_t i = 0; i < countof(words); i++)
        add_topic(reference, (struct topic){ .kind = TOPIC_WORD, .name = words[i].name, .signature = words[i].told,
                                             .help = words[i].help });
}

/* What is meant by another way to say it; NULL: nothing. */
static const char *
meaning_of_word(const char *key)
{
    static const struct { const char *word, *name; } meanings[] = {
#define WORD(space, word, help)
#define MEANS(word, name) { word, name },
#include "lua/words.def"
#undef MEANS
#undef WORD
    };
    for (size_t i = 0; i < countof(meanings); i++)
        if (strcmp(meanings[i].word, key) == 0)
            return meanings[i].name;
    return NULL;
}

static int
compare_topics(const void *left, const void *right)
{
    const struct topic *a = left, *b = right;
    bool a_lua = a->kind <= TOPIC_FIELD, b_lua = b->kind <= TOPIC_FIELD;
    if (a_lua != b_lua || (!a_lua && a->kind != b->kind))
        return a->kind < b->kind ? -1 : 1;
    int order = strcmp(a->space, b->space);
    order     = order != 0 ? order : strcmp(a->key, b->key);
    return order != 0 ? order : strcmp(a->signature, b->signature);
}

static struct topic *
topic_of_key(struct reference *reference, const char *key, enum topic_kind kind)
{
    for (size_t i = 0; i < reference->count; i++)
        if (reference->topics[i].kind == kind && strcmp(reference->topics[i].key, key) == 0)
            return &reference->topics[i];
    return NULL;
}

/* rs.sum and t:sum, rs.nn.Linear noted twice: one topic. An op that has a function of its name is told with it. */
static void
merge_topics(struct reference *reference)
{
    size_t kept = 0;
    qsort(reference->topics, reference->count, sizeof *reference->topics, compare_topics);
    for (size_t i = 0; i < reference->count; i++) {
        struct topic *topic = &reference->topics[i], *last = kept > 0 ? &reference->topics[kept - 1] : NULL;
        if (last == NULL || last->kind != topic->kind || strcmp(last->key, topic->key) != 0)
            reference->topics[kept++] = *topic;
    }
    reference->count = kept;
    for (size_t i = 0; i < reference->count; i++) {
        struct topic *topic = &reference->topics[i];
        struct topic *same  = topic->kind == TOPIC_FUNCTION && strncmp(topic->key, "t.", 2) == 0
                                  ? topic_of_key(reference, topic->key + 2, TOPIC_FUNCTION) : NULL;
        if (same != NULL && strncmp(same->name, "rs.", 3) == 0) {
            same->other = topic->signature;
            topic->key  = NULL;
        }
        if (topic->kind == TOPIC_OP && topic_of_key(reference, topic->name, TOPIC_FUNCTION) != NULL)
            topic->key = NULL;
        if (topic->key == NULL)
            topic->key = ""; /* compacted below */
    }
    kept = 0;
    for (size_t i = 0; i < reference->count; i++)
        if (reference->topics[i].key[0] != '\0')
            reference->topics[kept++] = reference->topics[i];
    reference->count = kept;
}

static int
drop_reference(lua_State *L)
{
    struct reference *reference = lua_touserdata(L, 1);
    arena_free(&reference->arena);
    free(reference->topics);
    *reference = (struct reference){ .count = 0 };
    return 0;
}

/* Leaves it on the stack, which owns it. */
static struct reference *
push_reference(lua_State *L)
{
    struct reference *reference = lua_newuserdatauv(L, sizeof *reference, 0);
    *reference                  = (struct reference){ .count = 0 };
    if (luaL_newmetatable(L, "ringside.reference")) {
        lua_pushcfunction(L, drop_reference);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    shelf_fill_all(L);
    add_functions(L, reference);
    add_aliases(L, reference);
    add_dtypes(L, reference);
    add_tables(reference);
    add_words(reference);
    if (reference->broken)
        raise_error(L, "MemoryError", "out of memory for the reference");
    merge_topics(reference);
    return reference;
}

/* ---- finding ---- */

/* The whole key, or its end from a dot on. */
static bool
ends_with(const char *key, const char *wanted)
{
    size_t length = strlen(key), tail = strlen(wanted);
    return tail < length && key[length - tail - 1] == '.' && strcmp(key + length - tail, wanted) == 0;
}

static bool
tell_found(const struct reference *reference, const char *key, bool whole, struct str *out)
{
    bool found = false;
    for (size_t i = 0; i < reference->count; i++) {
        const struct topic *topic = &reference->topics[i];
        bool method = topic->other != NULL && strncmp(key, "t.", 2) == 0 && strcmp(topic->key, key + 2) == 0;
        if (whole ? strcmp(topic->key, key) != 0 && !method : !ends_with(topic->key, key))
            continue;
        if (found)
            str_add(out, "\n");
        topic_tell(topic, out);
        found = true;
    }
    return found;
}

/* What else ends in that name, in one line. */
static void
tell_others(const struct reference *reference, const char *key, struct str *out)
{
    bool any = false;
    for (size_t i = 0; i < reference->count; i++) {
        if (!ends_with(reference->topics[i].key, key))
            continue;
        str_addf(out, "%s%s", any ? ", " : "\nSee also ", reference->topics[i].name);
        any = true;
    }
    str_add(out, any ? "\n" : "");
}

/* The functions that take an argument of that name, with what it is there; of many the first few. */
static bool
tell_takers(const struct reference *reference, const char *argument, struct str *out)
{
    size_t found = 0;
    for (size_t i = 0; i < reference->count; i++) {
        if (!topic_takes(&reference->topics[i], argument, NULL))
            continue;
        if (found == 0)
            str_addf(out, "%s%s, an argument of\n", out->len > 0 ? "\n" : "", argument);
        if (found++ < TAKERS)
            topic_takes(&reference->topics[i], argument, out);
    }
    if (found > TAKERS)
        str_addf(out, "  and of %zu more\n", found - TAKERS);
    return found > 0;
}

static bool
has_space(const struct reference *reference, const char *space)
{
    for (size_t i = 0; i < reference->count; i++)
        if (strcmp(reference->topics[i].space, space) == 0)
            return true;
    return false;
}

static bool
tell_space(const struct reference *reference, const char *space, struct str *out)
{
    bool found = false;
    for (size_t i = 0; i < reference->count; i++) {
        if (strcmp(reference->topics[i].space, space) != 0)
            continue;
        topic_line(&reference->topics[i], out);
        found = true;
    }
    return found;
}

static void
tell_spaces(const struct reference *reference, struct str *out)
{
    for (size_t i = 0, count; i < reference->count; i += count) {
        for (count = 1; i + count < reference->count; count++)
            if (strcmp(reference->topics[i + count].space, reference->topics[i].space) != 0)
                break;
        str_addf(out, "  %-20s %3zu names: %s", reference->topics[i].space, count, reference->topics[i].name);
        for (size_t j = 1; j < count && j < 3; j++)
            str_addf(out, ", %s", reference->topics[i + j].name);
        str_add(out, count > 3 ? " ...\n" : "\n");
    }
}

static void
tell_whole(const struct reference *reference, struct str *out)
{
    str_add(out, "# Ringside's reference\n");
    for (size_t i = 0; i < reference->count; i++) {
        if (i == 0 || strcmp(reference->topics[i].space, reference->topics[i - 1].space) != 0)
            str_addf(out, "\n## %s\n", reference->topics[i].space);
        topic_markdown(&reference->topics[i], out);
    }
}

/* How far `name` is from the word that was asked for; SIZE_MAX: it cannot have been meant. One letter in short words,
 * and in longer ones more only if they begin alike: any three letters are two changes away from some name. */
static size_t
how_far(const char *word, const char *name)
{
    size_t length = strlen(word), far = word_distance(word, name);
    size_t reach  = length < 3 ? 0 : length < 6 ? 1 : length < 10 ? 2 : 3;
    bool   alike  = far <= 1 || tolower((unsigned char)word[0]) == tolower((unsigned char)name[0]);
    if (far <= reach && alike)
        return far;
    if (length > 3 && strstr(name, word) != NULL) /* a part of a name */
        return name[0] == word[0] ? 1 : 2;
    return SIZE_MAX;
}

/* The nearest name; of a name with dots among those of its namespace first, else the nearest last part. */
static void
find_meant(const struct reference *reference, const char *key, char *out, size_t size)
{
    size_t      least = SIZE_MAX;
    const char *dot   = strrchr(key, '.'), *word = dot != NULL ? dot + 1 : key;
    out[0] = '\0';
    for (size_t i = 0; i < reference->count; i++) {
        const char *whole = reference->topics[i].key, *last = strrchr(whole, '.');
        size_t      space = last != NULL ? (size_t)(last - whole) : 0;
        bool        same = dot != NULL && space == (size_t)(dot - key) && strncmp(whole, key, space) == 0;
        size_t      far  = how_far(word, last != NULL ? last + 1 : whole);
        if (far < SIZE_MAX && dot != NULL && !same)
            far += 2;
        if (far >= least)
            continue;
        least = far;
        snprintf(out, size, "%s", reference->topics[i].name);
    }
}

/* All that is called so: the page for those who come from Python; names, and the namespace; else names that end so. */
static bool
tell_key(const struct reference *reference, const char *key, struct str *out)
{
    if (strcmp(key, "python") == 0) {
        mistakes_page(out);
        return true;
    }
    if (!tell_found(reference, key, true, out)) {
        if (!isupper((unsigned char)key[0])) /* a class: what makes its objects before what they can do */
            return tell_space(reference, key, out) || tell_found(reference, key, false, out);
        bool made = tell_found(reference, key, false, out);
        if (made && has_space(reference, key))
            str_addf(out, "\nWhat a %s can do:\n\n", key);
        return tell_space(reference, key, out) || made;
    }
    tell_others(reference, key, out);
    if (has_space(reference, key)) {
        str_addf(out, "\n%s, a namespace:\n\n", key);
        tell_space(reference, key, out);
    }
    return true;
}

static void
answer_request(const struct reference *reference, struct reference_request *request)
{
    char key[KEY_BYTES];
    request->found = true;
    if (request->form == REFERENCE_NAMES) {
        tell_spaces(reference, request->out);
        return;
    }
    if (request->form == REFERENCE_WHOLE) {
        tell_whole(reference, request->out);
        return;
    }
    key_of(request->name, key, sizeof key);
    const char *meaning = meaning_of_word(key);
    request->found      = tell_key(reference, key, request->out) ||
                     (meaning != NULL && tell_key(reference, meaning, request->out));
    bool argument = meaning == NULL && !request->no_arguments && !has_key(reference, key) && !has_space(reference, key);
    if (argument && tell_takers(reference, key, request->out))
        request->found = true;
    if (!request->found)
        find_meant(reference, key, request->meant, sizeof request->meant);
}

void
reference_answer_from(lua_State *L, struct reference_request *request)
{
    luaL_checkstack(L, 12, "no room to look");
    answer_request(push_reference(L), request);
    lua_pop(L, 1);
}

static int
answer_protected(lua_State *L)
{
    reference_answer_from(L, lua_touserdata(L, 1));
    return 0;
}

bool
reference_answer(struct task *me, struct reference_request *request)
{
    struct script_options options = { .trusted = true };
    struct script        *script  = script_new(me, &options);
    if (script == NULL)
        return false;
    bool ok = script_visit(me, script, answer_protected, request);
    script_free(me, script);
    return ok && (str_ok(request->out) || failed(me, E_MEMORY, "out of memory for the reference"));
}
