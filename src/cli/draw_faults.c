/* Faults from a seed; see draw_faults.h.
 *
 * Interface: fault_kinds_read, draw_faults. */
#include "cli/draw_faults.h"

#include <stdio.h>
#include <string.h>
#include "base/rng.h"
#include "base/vec.h"
#include "cli/trial.h"

static const struct { const char *word; enum fault_kind kind; } kind_words[] = {
    { "late", FAULT_LATE }, { "kill", FAULT_KILL },     { "lose", FAULT_LOSE },             { "delay", FAULT_DELAY },
    { "double", FAULT_DOUBLE }, { "cut", FAULT_CUT },   { "allocation", FAULT_ALLOCATION }, { "write", FAULT_WRITE },
};

bool
fault_kinds_read(const char *text, unsigned *kinds, char *word, size_t size)
{
    *kinds = 0;
    for (;;) {
        size_t   length = strcspn(text, ",");
        unsigned found  = 0;
        snprintf(word, size, "%.*s", (int)(length < size ? length : size - 1), text);
        for (size_t i = 0; i < countof(kind_words); i++)
            if (strcmp(word, "all") == 0 || strcmp(word, kind_words[i].word) == 0)
                found |= 1u << kind_words[i].kind;
        if (found == 0)
            return false;
        *kinds |= found;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

/* A number below `count`, which is not 0. */
static uint64_t
draw(uint64_t *random, uint64_t count)
{
    return splitmix(random) % count;
}

/* One of the links that carried something, each as likely as the others. false: none did. */
static bool
draw_message(const struct fault_counts *counts, uint64_t *random, struct fault *fault)
{
    uint64_t links = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t wanted = pass == 1 ? draw(random, links) : 0, at = 0;
        for (int link = 0; link < TRIAL_RANKS * TRIAL_RANKS; link++) {
            int from = link / TRIAL_RANKS, to = link % TRIAL_RANKS;
            if (counts->messages[from][to] == 0)
                continue;
            links += pass == 0;
            if (pass == 0 || at++ != wanted)
                continue;
            fault->rank = from;
            fault->peer = to;
            fault->at   = draw(random, counts->messages[from][to]);
            return true;
        }
        if (links == 0)
            return false;
    }
    return false;
}

static bool
draw_point(const struct fault_counts *counts, uint64_t *random, struct fault *fault)
{
    uint64_t ranks = 0;
    for (int rank = 0; rank < TRIAL_RANKS; rank++)
        ranks += counts->points[rank] > 0;
    uint64_t wanted = ranks > 0 ? draw(random, ranks) : 0;
    for (int rank = 0; rank < TRIAL_RANKS; rank++) {
        if (counts->points[rank] == 0 || wanted-- > 0)
            continue;
        fault->rank = rank;
        fault->at   = draw(random, counts->points[rank]);
        return true;
    }
    return false;
}

/* false: there is no occasion for it. */
static bool
draw_fault(const struct fault_counts *counts, enum fault_kind kind, uint64_t *random, struct fault *fault)
{
    const uint64_t us = 1000000;
    uint64_t       count = kind == FAULT_ALLOCATION ? counts->allocations : counts->writes;
    *fault = (struct fault){ .kind = kind, .rank = -1, .peer = -1, .ps = 0 };
    if (kind == FAULT_LATE || kind == FAULT_DELAY)
        fault->ps = us << draw(random, 14); /* 1 us to 8 ms */
    if (kind == FAULT_LATE || kind == FAULT_KILL)
        return draw_point(counts, random, fault);
    if (kind != FAULT_ALLOCATION && kind != FAULT_WRITE)
        return draw_message(counts, random, fault);
    if (count > 0)
        fault->at = draw(random, count);
    return count > 0;
}

bool
draw_faults(const struct fault_counts *counts, unsigned kinds, uint64_t seed, struct fault_plan *plan)
{
    uint64_t        random = seed ^ 0x6661756c74; /* other numbers than the schedule's */
    enum fault_kind drawn[countof(kind_words)];
    size_t          count = 0, wanted = 1 + draw(&random, 2);
    struct fault    fault;
    plan->count = 0;
    for (size_t i = 0; i < countof(kind_words); i++)
        if ((kinds >> kind_words[i].kind & 1) != 0)
            drawn[count++] = kind_words[i].kind;
    for (size_t i = 0; count > 0 && i < wanted; i++)
        if (draw_fault(counts, drawn[draw(&random, count)], &random, &fault) && !fault_plan_add(plan, &fault))
            return false;
    return true;
}
