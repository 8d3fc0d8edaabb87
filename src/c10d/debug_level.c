/* The levels of TORCH_DISTRIBUTED_DEBUG by name, and whose is whose. */
#include "c10d/debug_level.h"
#include <stdlib.h>
#include <strings.h>
#include "c10d/group.h"
#include "sched/task.h"

static const char *const names[] = { [DEBUG_OFF] = "OFF", [DEBUG_INFO] = "INFO", [DEBUG_DETAIL] = "DETAIL" };

const char *
debug_level_name(enum debug_level level)
{
    return names[level];
}

bool
debug_level_parse(const char *text, enum debug_level *out)
{
    for (int level = DEBUG_OFF; level <= DEBUG_DETAIL; level++) {
        if (strcasecmp(text, names[level]) != 0)
            continue;
        *out = (enum debug_level)level;
        return true;
    }
    return false;
}

bool
debug_level_from_environment(struct task *me, enum debug_level *out)
{
    const char *text = getenv("TORCH_DISTRIBUTED_DEBUG");
    *out             = DEBUG_OFF;
    return text == NULL || debug_level_parse(text, out) ||
           failed(me, E_VALUE, "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, not '%.60s'", text);
}

enum debug_level
debug_level(const struct task *me)
{
    const struct rank_context *context = rank_context(me);
    return context != NULL ? (enum debug_level)context->debug_level : DEBUG_OFF;
}
