/* What the story has to know of each kind of a trace: its part, and what its arguments are.
 * Interface: story_learn, story_mark. */
#include "analysis/story_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

static bool
is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void
learn_arguments(struct story_kind *out, const struct trace_kind *kind)
{
    static const char *const counting[] = { "iteration", "sequence", "call", "round", "tag", "batch", "checkpoint" };
    out->world = out->bucket = out->sequence = -1;
    for (int i = 0; i < kind->arg_count; i++) {
        const char *name = kind->arg_name[i];
        if (is_one_of(name, counting, countof(counting)))
            out->counters |= (uint8_t)(1 << i);
        if (strcmp(kind->arg_type[i], "text") == 0)
            out->texts |= (uint8_t)(1 << i);
        if (strcmp(kind->arg_type[i], "storage") == 0 || strcmp(kind->arg_type[i], "snapshot") == 0)
            out->counters |= (uint8_t)(1 << i); /* a number that it got: others come the next time */
        if (strcmp(name, "world") == 0)
            out->world = (int8_t)i;
        if (strcmp(name, "bucket") == 0)
            out->bucket = (int8_t)i;
        if (strcmp(name, "sequence") == 0)
            out->sequence = (int8_t)i;
    }
}

/* What a lesson says of a kind: lifted to a scene, or silenced. */
static enum story_part
turned(const struct story *story, const char *name, enum story_part part)
{
    const char *key, *value;
    for (size_t i = 0; trace_option_at(story->trace, i, &key, &value); i++) {
        if (strncmp(key, STORY_PART, strlen(STORY_PART)) != 0 || strcmp(key + strlen(STORY_PART), name) != 0)
            continue;
        if (strcmp(value, "scene") != 0)
            part = part == PART_DETAIL ? PART_QUIET : PART_DETAIL;
        else if (part == PART_DETAIL || part == PART_QUIET)
            part = PART_SCENE;
    }
    return part;
}

static enum story_role
role_of(const char *name)
{
    static const struct { const char *name; enum story_role role; } roles[] = {
        { "task.start", ROLE_START },  { "task.end", ROLE_END },          { "task.join", ROLE_JOIN },
        { "c10d.issue", ROLE_ISSUE },  { "c10d.algorithm", ROLE_ALGORITHM }, { "c10d.rendezvous", ROLE_RENDEZVOUS },
        { "comm.hop", ROLE_HOP },      { "ddp.bucket", ROLE_BUCKET },     { "lesson.say", ROLE_SAY },
        { "lesson.ask", ROLE_ASK },    { "lesson.check", ROLE_CHECK },
    };
    for (size_t i = 0; i < countof(roles); i++)
        if (strcmp(name, roles[i].name) == 0)
            return roles[i].role;
    static const char *const harmless[] = { "fault.injected", "fault.buffer_reuse", "fault.race" };
    return strncmp(name, "fault.", 6) == 0 && !is_one_of(name, harmless, countof(harmless)) ? ROLE_FAULT : ROLE_NONE;
}

static struct story_kind
kind_of(const struct story *story, const struct trace_kind *kind)
{
    static const char *const shields[] = { "autograd.backward", "module.sync_batch_norm",
                                           "module.sync_batch_norm.backward" };
    struct story_kind out = { .part = turned(story, kind->name, story_part_of(kind->name)) };
    out.nests   = strncmp(kind->name, "lock.", 5) != 0;
    out.role    = role_of(kind->name);
    out.sums    = strcmp(kind->name, "c10d.allreduce") == 0;
    if (out.role == ROLE_HOP && out.part == PART_QUIET)
        out.role = ROLE_NONE; /* the lesson wants no steps */
    out.shields = strncmp(kind->name, "ddp.", 4) == 0 || strncmp(kind->name, "dp.", 3) == 0 ||
                  is_one_of(kind->name, shields, countof(shields));
    learn_arguments(&out, kind);
    return out;
}

/* Its name without numbers, and which of those it is: "r1 autograd 1" is on the track of "r0 autograd 0". */
static uint32_t
track_of(struct story *story, const struct trace_lane_info *info)
{
    uint64_t words[2] = { 0, (uint64_t)rank_number(info->rank) }, nth = 0;
    for (const char *at = info->name; *at != '\0'; at++)
        if (!isdigit((unsigned char)*at))
            words[0] = hash_bytes(words[0], at, 1);
    uint64_t key = hash_bytes(13, words, sizeof words);
    map_get(&story->counts, key, &nth);
    if (!map_set(&story->counts, key, nth + 1))
        story->starved = true;
    return (uint32_t)hash_bytes(words[0], &nth, sizeof nth);
}

static struct story_lane
lane_of(struct story *story, const struct trace_lane_info *info)
{
    const char *space = strrchr(info->name, ' ');
    return (struct story_lane){ .word = NO_ROUND, .track = track_of(story, info),
                                .is_main = info->rank >= 0 && space != NULL && strcmp(space, " main") == 0 };
}

/* Kinds, lanes and ranks may be declared while the run goes on. */
bool
story_learn(struct story *story)
{
    size_t kinds = trace_kinds(story->trace), lanes = trace_lanes(story->trace);
    if (!vec_room(&story->lanes, &story->lane_room, lanes, sizeof *story->lanes))
        return false;
    for (; story->lane_count < lanes; story->lane_count++)
        story->lanes[story->lane_count] = lane_of(story, trace_lane_at(story->trace, story->lane_count));
    if (kinds <= story->kind_count)
        return true;
    struct story_kind *more = realloc(story->kinds, kinds * sizeof *more);
    if (more == NULL)
        return false;
    story->kinds = more;
    for (; story->kind_count < kinds; story->kind_count++)
        more[story->kind_count] = kind_of(story, trace_kind(story->trace, (unsigned)story->kind_count));
    return true;
}

uint64_t
story_mark(const struct story *story, const struct trace_event *event)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    uint64_t                 mark = hash_bytes(0, &event->kind, sizeof event->kind);
    for (int i = 0; i < 4; i++) {
        if (kind->counters >> i & 1)
            continue;
        const char *text = kind->texts >> i & 1 ? trace_text_at(story->trace, event->args[i]) : NULL;
        mark = text != NULL ? hash_bytes(mark, text, strlen(text))
                            : hash_bytes(mark, &event->args[i], sizeof event->args[i]);
    }
    return mark;
}
