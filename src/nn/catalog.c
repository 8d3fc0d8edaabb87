/* The layers of layers.def: their signatures read once, what makes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/vec.h"
#include "device/device.h"
#include "nn/layer.h"
#include "sched/task.h"

static const struct layer_row rows[] = {
#define LAYER(make, signature, help) { signature, help, make, NULL },
#define PLAIN(types, signature, help) { signature, help, NULL, types },
#include "nn/layers.def"
#undef PLAIN
#undef LAYER
};

struct layer_catalogue { struct arena arena; struct layer_kind kinds[countof(rows)]; };

/* Behind the row's own parameters come those that every layer has. false: out of memory. */
static bool
read_layer(struct arena *arena, const struct layer_row *row, struct layer_kind *out)
{
    char text[512];
    int  own = (int)strlen(row->signature) - 1;
    snprintf(text, sizeof text, "%.*s%s*, dtype? dtype=None, device? device=None)", own, row->signature,
             row->signature[own - 1] != '(' ? ", " : "");
    out->row = row;
    return signature_parse(arena, text, &out->signature);
}

struct layer_catalogue *
layer_catalogue_new(void)
{
    struct layer_catalogue *catalogue = calloc(1, sizeof *catalogue);
    for (size_t i = 0; catalogue != NULL && i < countof(rows); i++) {
        if (read_layer(&catalogue->arena, &rows[i], &catalogue->kinds[i]))
            continue;
        layer_catalogue_free(catalogue);
        return NULL;
    }
    return catalogue;
}

void
layer_catalogue_free(struct layer_catalogue *catalogue)
{
    if (catalogue == NULL)
        return;
    arena_free(&catalogue->arena);
    free(catalogue);
}

const struct layer_kind *
layer_kinds(const struct layer_catalogue *catalogue, size_t *count)
{
    *count = countof(rows);
    return catalogue->kinds;
}

/* ---- making ---- */

static const struct layer_type *
plain_type(const struct layer_kind *kind)
{
    const struct layer_type *type = kind->row->plain;
    while (strcmp(type->type.name, kind->signature.name) != 0)
        type++;
    return type;
}

/* The module's numbers are the kind's floats, its integers the others: none is -1, of a list the count comes first. */
static struct module *
make_plain(struct task *me, const struct layer_kind *kind, const struct arguments *a)
{
    struct module *module = module_new(me, &plain_type(kind)->type);
    int            numbers = 0, integers = 0;
    for (int i = 0; module != NULL && i < kind->signature.positional; i++) {
        const struct parameter *p = &kind->signature.parameters[i];
        const struct argument  *given = &a->at[i];
        int                     kept = p->type == ARG_SIZES ? given->count : 1;
        if (strcmp(p->name, "inplace") == 0) {
            module->integers[LAYER_INPLACE] = given->integer[0];
            continue;
        }
        if (p->type == ARG_FLOAT)
            module->numbers[numbers++] = given->number;
        if (p->type == ARG_SIZES)
            module->integers[integers++] = given->count;
        if (p->type == ARG_FLOAT || integers + kept > LAYER_INPLACE)
            continue;
        for (int j = 0; j < kept; j++)
            module->integers[integers++] = given->none ? -1 : given->integer[j];
    }
    return module;
}

struct module *
layer_new(struct task *me, const struct layer_kind *kind, struct arguments *a)
{
    const struct argument *dtype = &a->at[kind->signature.positional], *device = dtype + 1;
    a->dtype = dtype->none ? default_dtype(me) : dtype->dtype;
    if (!dtype_is_float(a->dtype))
        return failed_null(me, E_TYPE, "nn.%s: a layer's numbers are fractions, not %s", kind->signature.name,
                           dtype_name(a->dtype));
    struct module *module = kind->row->make != NULL ? kind->row->make(me, a) : make_plain(me, kind, a);
    bool           moves  = !device->none && device->integer[0] != DEVICE_CPU;
    return module != NULL && moves && !module_to(me, module, (int)device->integer[0]) ? NULL : module;
}

/* Whole numbers for the parameters that lead. */
static struct module *
new_by_numbers(struct task *me, const struct layer_kind *kind, const int64_t *numbers, int count)
{
    struct arguments a;
    for (int i = 0; i < kind->signature.count; i++) {
        argument_default(&kind->signature.parameters[i], &a.at[i]);
        if (i >= count)
            continue;
        a.at[i].none       = false;
        a.at[i].number     = (double)numbers[i];
        a.at[i].integer[0] = a.at[i].integer[1] = numbers[i];
    }
    return layer_new(me, kind, &a);
}

struct module *
nn_layer(struct task *me, const char *name, const int64_t *numbers, int count)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < countof(rows); i++) {
        struct arena      arena = { 0 };
        struct layer_kind kind;
        if (strncmp(rows[i].signature, name, length) != 0 || rows[i].signature[length] != '(')
            continue;
        struct module *module = read_layer(&arena, &rows[i], &kind)
                                    ? new_by_numbers(me, &kind, numbers, count)
                                    : failed_null(me, E_MEMORY, "out of memory for the layer %s", name);
        arena_free(&arena);
        return module;
    }
    return failed_null(me, E_VALUE, "nn has no layer '%s'", name);
}
