/* A module as PyTorch prints it: its class, what its type says of itself, and its children below, moved to the right.
 * Interface: module_print. In PyTorch: Module.__repr__, and ModuleList's own. */
#include <string.h>
#include "base/str.h"
#include "nn/module.h"

enum { LONGEST_TEXT = 1 << 20 };

/* Text in which each line after the first is moved to the right. */
static void
add_indented(struct str *out, const char *text)
{
    for (; *text != '\0'; text++) {
        str_add_bytes(out, text, 1);
        if (*text == '\n')
            str_add(out, "  ");
    }
}

static void print_at(const struct module *module, struct str *out, int depth);

/* Children first to last, which print alike: (0): Linear(...), or (0-1): 2 x Linear(...). */
static void
add_children(struct str *out, const struct module_entry *entries, int first, int last, const char *text)
{
    if (last > first)
        str_addf(out, "\n  (%s-%s): %d x ", entries[first].name, entries[last].name, last - first + 1);
    else
        str_addf(out, "\n  (%s): ", entries[first].name);
    add_indented(out, text);
}

/* In a ModuleList neighbours that print alike share a line, since PyTorch 2.0. */
static void
print_children(const struct module *module, struct str *out, int depth)
{
    const struct module_entry *entries = module->children.entries;
    bool                       shared = strcmp(module->type->name, "ModuleList") == 0;
    struct str                 run = { 0 };
    size_t                     printed = out->len;
    int                        first = 0, i = 0;
    for (; i < module->children.count && printed < LONGEST_TEXT; i++) {
        struct str child = { 0 };
        if (entries[i].module != NULL)
            print_at(entries[i].module, &child, depth);
        else
            str_add(&child, "None");
        printed += child.len;
        if (i > first && !(shared && strcmp(str_text(&child), str_text(&run)) == 0)) {
            add_children(out, entries, first, i - 1, str_text(&run));
            first = i;
        }
        str_free(&run);
        run = child;
    }
    if (i > first)
        add_children(out, entries, first, i - 1, str_text(&run));
    str_free(&run);
}

static void
print_at(const struct module *module, struct str *out, int depth)
{
    struct str own = { 0 };
    str_addf(out, "%s(", module_class_name(module));
    module->type->describe(module, &own);
    if (module->children.count == 0)
        str_add(out, str_text(&own));
    else if (own.len > 0)
        str_addf(out, "\n  %s", str_text(&own));
    if (depth < MODULE_DEEPEST)
        print_children(module, out, depth + 1);
    str_add(out, module->children.count > 0 ? "\n)" : ")");
    str_free(&own);
}

void
module_print(const struct module *module, struct str *out)
{
    if (module != NULL)
        print_at(module, out, 0);
}
