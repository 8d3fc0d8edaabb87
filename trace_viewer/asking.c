/* Interface: asking.h. */
#include "asking.h"

#include "base/vec.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

void
asking_init(struct asking *asking)
{
    *asking = (struct asking){ .taken = NO_EVENT, .chosen = -1 };
}

void
asking_free(struct asking *asking)
{
    free(asking->given);
    asking_init(asking);
}

/* ---- which are open ---- */

bool
asking_is_question(const struct model *model, size_t seq)
{
    return seq < model->seen && model_is_lesson(model, seq, "ask");
}

/* Its place in the list, or where it would stand. */
static size_t
place_of(const struct asking *asking, size_t seq)
{
    size_t low = 0, high = asking->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (asking->given[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct given *
asking_given(const struct asking *asking, size_t seq)
{
    size_t place = place_of(asking, seq);
    return place < asking->count && asking->given[place].seq == seq ? &asking->given[place] : NULL;
}

bool
asking_is_open(const struct asking *asking, size_t seq)
{
    const struct given *given = asking_given(asking, seq);
    return !asking->all && (given == NULL || given->how == GIVEN_LATER);
}

bool
asking_holds(const struct asking *asking, size_t seq)
{
    return !asking->all && asking_given(asking, seq) == NULL;
}

size_t
asking_horizon(const struct asking *asking, const struct model *model)
{
    int kind = trace_kind_id(model->trace, "lesson.ask");
    for (size_t i = 0; kind >= 0 && !asking->all && i < model->lesson_count; i++) {
        size_t seq = model->lessons[i];
        if (trace_event(model->trace, seq)->kind == kind && asking_holds(asking, seq))
            return seq;
    }
    return NO_EVENT;
}

size_t
asking_count(const struct asking *asking, enum given_how how)
{
    size_t count = 0;
    for (size_t i = 0; i < asking->count; i++)
        count += asking->given[i].how == how;
    return count;
}

bool
asking_keep(struct asking *asking, const struct given *given)
{
    size_t place = place_of(asking, given->seq);
    if (place < asking->count && asking->given[place].seq == given->seq) {
        asking->given[place] = *given;
        return true;
    }
    if (!vec_room(&asking->given, &asking->room, asking->count + 1, sizeof *asking->given)) {
        asking->starved = true;
        return false;
    }
    memmove(&asking->given[place + 1], &asking->given[place], (asking->count - place) * sizeof *asking->given);
    asking->given[place] = *given;
    asking->count++;
    return true;
}
