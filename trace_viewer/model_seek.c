/* The state as of where one stands, and as of where one stood: at once, or a slice at a time. Interface: model_seek,
 * model_seek_past, model_approach; model_open_stages. */
#include "model.h"

#include "analysis/state.h"
#include "trace/reader.h"

/* *at is the event that the state stands at: NO_EVENT on the way. true: it is there, or cannot be. */
static bool
approach(struct state *state, size_t *at, size_t seq, size_t budget)
{
    enum state_progress progress = *at == seq ? STATE_THERE : state_seek_some(state, seq, budget);
    *at = progress == STATE_THERE ? seq : NO_EVENT;
    return progress != STATE_GOES_ON;
}

static bool
approach_past(struct model *model, size_t seq, size_t budget)
{
    if (seq == NO_EVENT || seq >= model->seen)
        return true;
    if (model->past == NULL)
        model->past = state_new(model->trace);
    return model->past == NULL || approach(model->past, &model->past_at, seq, budget);
}

bool
model_approach(struct model *model, size_t seq, size_t before, size_t budget)
{
    bool there = seq == NO_EVENT || seq >= model->seen || approach(model->state, &model->at, seq, budget);
    return there && approach_past(model, before, budget);
}

bool
model_seek(struct model *model, size_t seq)
{
    if (seq >= model->seen)
        return false;
    approach(model->state, &model->at, seq, SIZE_MAX);
    return model->at == seq;
}

bool
model_seek_past(struct model *model, size_t seq)
{
    approach_past(model, seq, SIZE_MAX);
    return seq == NO_EVENT || model->past_at == seq;
}

size_t
model_open_stages(const struct model *model, uint32_t lane, size_t *seqs, size_t room)
{
    return model->at == NO_EVENT ? 0 : state_open(model->state, lane, seqs, room);
}
