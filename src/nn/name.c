/* Names that several hold: before the text lies how many do. In Python texts are shared like any object. */
#include "nn/name.h"
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include "device/cells.h"

struct name { atomic_int references; char text[]; };

static struct name *
name_of(char *text)
{
    return (struct name *)(void *)(text - offsetof(struct name, text));
}

char *
name_join(struct task *me, const char *prefix, const char *name)
{
    const size_t before = prefix != NULL ? strlen(prefix) : 0, dot = before > 0, length = strlen(name);
    struct name *made = host_take(me, sizeof *made + before + dot + length + 1);
    if (made == NULL)
        return NULL;
    atomic_init(&made->references, 1);
    if (before > 0)
        memcpy(made->text, prefix, before);
    if (dot > 0)
        made->text[before] = '.';
    memcpy(made->text + before + dot, name, length);
    return made->text;
}

char *
name_new(struct task *me, const char *text)
{
    return name_join(me, NULL, text);
}

char *
name_ref(char *name)
{
    if (name != NULL)
        atomic_fetch_add_explicit(&name_of(name)->references, 1, memory_order_relaxed);
    return name;
}

void
name_unref(struct task *me, char *name)
{
    if (name != NULL && atomic_fetch_sub_explicit(&name_of(name)->references, 1, memory_order_acq_rel) == 1)
        host_return(me, name_of(name), sizeof(struct name) + strlen(name) + 1);
}
