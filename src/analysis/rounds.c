/* What a collective's messages have done so far: whose parts each chunk of each rank has in it. A message carries what
 * its sender's chunk is when it leaves; where it arrives that is added to what is there, or takes its place.
 * Interface in order of use: rounds_at, the questions, rounds_free. How the collective is found: rounds_find.c. */
#include "analysis/rounds_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/reader.h"

/* A trace may say anything: larger numbers than this are none. */
#define NUMBER_MOST (INT64_C(1) << 48)

enum { COLUMNS_MOST = 1 << 12, CELLS_MOST = 1 << 20, LAST_MESSAGES = 32 };

/* What the fold needs beside what it makes. */
struct fold { struct rounds *rounds; struct rounds_kinds kinds; int *members; /* by lane: member + 1, 0 none */ };

static int64_t
sane(int64_t number, int64_t otherwise)
{
    return number >= 0 && number <= NUMBER_MOST ? number : otherwise;
}

/* ---- chunks ---- */

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* torch.chunk's rule: where part `index` of `parts` of so many elements begins. */
static int64_t
part_begin(int64_t count, int64_t index, int64_t parts)
{
    int64_t each = (count + parts - 1) / parts;
    return least(each * index, count);
}

/* Halves of halves, the first of two the longer one. */
static void
cut_in_halves(int64_t *cut, int from, int to)
{
    if (to - from < 2)
        return;
    int middle = from + (to - from) / 2;
    cut[middle] = cut[from] + (cut[to] - cut[from] + 1) / 2;
    cut_in_halves(cut, from, middle);
    cut_in_halves(cut, middle, to);
}

/* By what c10d.algorithm says: `each` above 0 elements of a chunk, 0: equal chunks, -1: halves of halves, -W: equal
 * ones, each cut again in W. false: no memory. */
static bool
cut_in_chunks(struct rounds *rounds, int64_t parts, int64_t each, int64_t elements)
{
    if (parts <= 0 || parts > COLUMNS_MOST || each < -COLUMNS_MOST || each > NUMBER_MOST ||
        sane(elements, -1) < 0 || rounds->cut != NULL)
        return true;
    int64_t within = each < -1 ? -each : 1, columns = parts * within;
    if (columns > COLUMNS_MOST || columns * rounds->member_count > CELLS_MOST)
        return true;
    rounds->cut = calloc((size_t)columns + 1, sizeof *rounds->cut);
    if (rounds->cut == NULL)
        return false;
    rounds->columns = (int)columns;
    rounds->cut[columns] = elements;
    if (each == -1)
        cut_in_halves(rounds->cut, 0, (int)columns);
    for (int64_t part = 0; each != -1 && part < parts; part++) {
        int64_t begin = each > 0 ? (part < elements / each + 1 ? least(part * each, elements) : elements)
                                 : part_begin(elements, part, parts);
        int64_t end = each > 0 ? (part + 1 < elements / each + 1 ? least((part + 1) * each, elements) : elements)
                               : part_begin(elements, part + 1, parts);
        for (int64_t i = 0; i < within; i++)
            rounds->cut[part * within + i] = begin + part_begin(end - begin, i, within);
    }
    return true;
}

/* What is where before the first message: everybody's own part, the root's pieces, nothing else. */
static bool
place_shares(struct rounds *rounds)
{
    size_t cells = (size_t)rounds->columns * (size_t)rounds->member_count;
    if (rounds->columns == 0)
        return true;
    rounds->shares = calloc(cells, sizeof *rounds->shares);
    rounds->owners = calloc((size_t)rounds->columns, sizeof *rounds->owners);
    if (rounds->shares == NULL || rounds->owners == NULL)
        return false;
    for (int column = 0; column < rounds->columns; column++)
        rounds->owners[column] = -1;
    for (int member = 0; member < rounds->member_count; member++)
        for (int column = 0; column < rounds->columns; column++) {
            bool has = rounds->form == FORM_SUM ||
                       (rounds->root >= 0 && strcmp(rounds->kind, "gather") != 0 ? member == rounds->root
                                                                                 : member == column);
            uint64_t bit = member < 64 ? 1ull << member : 0;
            if (has)
                rounds->shares[member * rounds->columns + column] = (struct share){ bit, 1 };
        }
    return true;
}

/* ---- messages ---- */

static bool
carries(const struct rounds *rounds, const struct rounds_message *message, int column)
{
    return rounds->cut[column] >= message->first &&
           rounds->cut[column + 1] <= message->first + message->elements;
}

/* Which chunks it has. */
static void
place_message(const struct rounds *rounds, struct rounds_message *message)
{
    int column = -1;
    if (rounds->columns == 0 || message->from < 0 || message->to < 0)
        return;
    if (rounds->form == FORM_WHOLE) {
        column = 0;
    } else if (rounds->form == FORM_PIECES) {
        column = strcmp(rounds->kind, "alltoall") == 0 ? message->from : (int)message->chunk;
    } else if (rounds->cut != NULL && message->elements > 0) {
        for (int i = 0; i < rounds->columns; i++) {
            if (!carries(rounds, message, i))
                continue;
            message->column = column < 0 ? column = i : column;
            message->columns++;
        }
        return;
    }
    if (column >= 0 && column < rounds->columns) {
        message->column  = column;
        message->columns = 1;
    }
}

static int
member_of_rank(const struct rounds *rounds, int64_t rank)
{
    for (int i = 0; i < rounds->member_count; i++)
        if (rounds->members[i].rank == rank)
            return i;
    return -1;
}

static bool
carry_shares(struct rounds *rounds, struct rounds_message *message)
{
    size_t count = (size_t)message->columns;
    if (!vec_room(&rounds->carried, &rounds->carried_room, rounds->carried_count + count + 1,
                  sizeof *rounds->carried))
        return false;
    message->shares = rounds->carried_count;
    for (size_t i = 0; i < count; i++)
        rounds->carried[rounds->carried_count++] =
            rounds->shares[message->from * rounds->columns + message->column + (int)i];
    return true;
}

static bool
message_leaves(struct rounds *rounds, size_t seq, int from)
{
    const struct trace_event *event = trace_event(rounds->trace, seq);
    struct rounds_member     *member = from >= 0 ? &rounds->members[from] : NULL;
    struct rounds_message     message = {
        .seq = seq, .flow = event->flow, .from = from, .from_rank = event->rank, .elements = -1,
        .to_rank = (int)rounds_argument(rounds->trace, event, "peer", -1),
        .chunk   = rounds_argument(rounds->trace, event, "chunk", -1),
        .bytes   = sane(rounds_argument(rounds->trace, event, "bytes", 0), 0),
        .reduce  = rounds_argument(rounds->trace, event, "reduce", 0) != 0,
    };
    message.to = member_of_rank(rounds, message.to_rank);
    if (member != NULL) {
        message.first    = member->first;
        message.elements = member->elements;
        message.checksum = member->checksum;
        message.numbers  = member->numbers;
        member->elements = -1;
        member->numbers  = 0;
        member->hops++;
        member->sent += message.bytes;
        member->sending = (int)rounds->message_count;
    }
    place_message(rounds, &message);
    if (!carry_shares(rounds, &message) ||
        !vec_room(&rounds->messages, &rounds->message_room, rounds->message_count + 1, sizeof *rounds->messages))
        return false;
    rounds->messages[rounds->message_count++] = message;
    return true;
}

static void
put_share(struct rounds *rounds, struct share *mine, const struct share *comes, bool reduce, int column)
{
    if (!reduce) {
        *mine = *comes;
    } else {
        mine->ranks |= comes->ranks;
        mine->count  = rounds->member_count <= 64 ? __builtin_popcountll(mine->ranks) : mine->count + comes->count;
    }
    if (mine->count > rounds->member_count)
        mine->count = rounds->member_count;
    if (rounds->owners[column] < 0 && mine->count == rounds_full(rounds) && reduce)
        rounds->owners[column] = (int)(mine - rounds->shares) / rounds->columns;
}

static void
message_arrives(struct rounds *rounds, int index, int at)
{
    struct rounds_message *message = &rounds->messages[index];
    if (message->arrived)
        return;
    message->arrived = true;
    rounds->moved += message->bytes;
    if (at != message->to || at < 0)
        return;
    for (int i = 0; i < message->columns; i++)
        put_share(rounds, &rounds->shares[at * rounds->columns + message->column + i],
                  &rounds->carried[message->shares + (size_t)i], message->reduce, message->column + i);
}

/* The one that came with this flow; -1 none. */
static int
message_of_flow(const struct rounds *rounds, uint32_t flow)
{
    for (size_t i = rounds->message_count; flow != 0 && i-- > 0;)
        if (rounds->messages[i].flow == flow)
            return (int)i;
    return -1;
}

/* The one on its way from a rank to a member, which waits for it; -1: it has not left. */
static int
message_awaited(const struct rounds *rounds, int to, int64_t from_rank)
{
    int found = -1;
    for (size_t i = rounds->message_count; i-- > 0;)
        if (!rounds->messages[i].arrived && rounds->messages[i].to == to && rounds->messages[i].from_rank == from_rank)
            found = (int)i;
    return found;
}

/* ---- events ---- */

static void
note_current(struct rounds *rounds, size_t seq, int message)
{
    if (message >= 0)
        rounds->current = message;
    if (seq == rounds->seq)
        rounds->here = message >= 0;
}

static bool
fold_hop(struct rounds *rounds, size_t seq, int at)
{
    const struct trace_event *event = trace_event(rounds->trace, seq);
    struct rounds_member     *member = &rounds->members[at];
    if (event->phase == PHASE_BEGIN) {
        bool left = message_leaves(rounds, seq, at);
        note_current(rounds, seq, (int)rounds->message_count - 1);
        return left;
    }
    int arrived = message_of_flow(rounds, event->flow), sent = member->sending;
    member->sending = -1;
    if (arrived >= 0)
        message_arrives(rounds, arrived, at);
    else if (sent >= 0 && rounds->messages[sent].flow == 0)
        message_arrives(rounds, sent, -1); /* between a send and a receive: it lies there when the sender is through */
    if (seq == rounds->seq)
        note_current(rounds, seq, arrived >= 0 ? arrived : sent);
    return true;
}

static void
fold_receive(struct rounds *rounds, size_t seq, int at)
{
    const struct trace_event *event = trace_event(rounds->trace, seq);
    int64_t peer = rounds_argument(rounds->trace, event, "peer", -1);
    int     message = event->phase == PHASE_BEGIN ? message_awaited(rounds, at, peer)
                                                  : message_of_flow(rounds, event->flow);
    if (event->phase == PHASE_END && message >= 0)
        message_arrives(rounds, message, at);
    if (seq == rounds->seq)
        note_current(rounds, seq, message);
}

static void
note_numbers(struct rounds *rounds, const struct trace_event *event, struct rounds_member *member)
{
    member->first    = sane(rounds_argument(rounds->trace, event, "first", 0), 0);
    member->elements = sane(rounds_argument(rounds->trace, event, "elements", -1), -1);
    member->checksum = rounds_argument(rounds->trace, event, "checksum", 0);
    member->numbers  = rounds_argument(rounds->trace, event, "numbers", 0);
}

static bool
note_algorithm(struct rounds *rounds, const struct trace_event *event)
{
    int64_t parts = rounds_argument(rounds->trace, event, "parts", 0);
    if (rounds->algorithm[0] != '\0')
        return true;
    rounds->algorithm = trace_text_at(rounds->trace, rounds_argument(rounds->trace, event, "algorithm", 0));
    if (parts == 0 || rounds->form != FORM_SUM) {
        rounds->form = FORM_MESSAGES;
        return true;
    }
    return cut_in_chunks(rounds, parts, rounds_argument(rounds->trace, event, "each", 0),
                         rounds_argument(rounds->trace, event, "elements", -1)) &&
           place_shares(rounds);
}

static bool
fold_event(struct fold *fold, size_t seq)
{
    struct rounds            *rounds = fold->rounds;
    const struct trace_event *event  = trace_event(rounds->trace, seq);
    int at = event->lane < trace_lanes(rounds->trace) ? fold->members[event->lane] - 1 : -1;
    struct rounds_member *member = at >= 0 ? &rounds->members[at] : NULL;
    if (member == NULL || seq < member->begin || member->end != ROUNDS_NOWHERE)
        return true;
    if (event->kind == fold->kinds.hop)
        return fold_hop(rounds, seq, at);
    if (event->kind == fold->kinds.receive)
        fold_receive(rounds, seq, at);
    else if (event->kind == fold->kinds.numbers)
        note_numbers(rounds, event, member);
    else if (event->kind == fold->kinds.algorithm)
        return note_algorithm(rounds, event);
    else if (event->phase == PHASE_END && trace_partner(rounds->trace, seq) == member->begin)
        member->end = seq;
    return true;
}

static bool
all_have_ended(const struct rounds *rounds)
{
    for (int i = 0; i < rounds->member_count; i++)
        if (rounds->members[i].end == ROUNDS_NOWHERE)
            return false;
    return true;
}

/* From the first beginning to the event, or to the last end. */
static bool
fold_all(struct fold *fold)
{
    struct rounds *rounds = fold->rounds;
    size_t first = ROUNDS_NOWHERE;
    for (int i = 0; i < rounds->member_count; i++) {
        const struct rounds_member *member = &rounds->members[i];
        first = member->begin < first ? member->begin : first;
        if (member->begin != ROUNDS_NOWHERE && member->lane < trace_lanes(rounds->trace))
            fold->members[member->lane] = i + 1;
    }
    if (first == ROUNDS_NOWHERE)
        return true;
    rounds->cut_off |= rounds->seq - first > ROUNDS_BETWEEN;
    for (size_t seq = first; !rounds->cut_off && seq <= rounds->seq; seq++) {
        if (!fold_event(fold, seq))
            return false;
        if (trace_event(rounds->trace, seq)->phase == PHASE_END && all_have_ended(rounds))
            break;
    }
    return true;
}

/* Messages outside of a collective: the last ones, as they left. */
static bool
fold_messages(struct rounds *rounds, const struct rounds_kinds *kinds)
{
    size_t   found[LAST_MESSAGES], count = 0, seq = rounds->when == ROUNDS_NEXT ? ROUNDS_NOWHERE : rounds->seq;
    uint32_t iteration = trace_event(rounds->trace, rounds->seq)->iteration;
    for (size_t steps = 0; steps < ROUNDS_NEAR && seq < trace_count(rounds->trace) && count < LAST_MESSAGES;
         steps++, seq--) {
        const struct trace_event *event = trace_event(rounds->trace, seq);
        bool message = event->kind == kinds->hop && event->phase == PHASE_BEGIN;
        if (event->iteration != iteration || (event->kind == kinds->rendezvous && event->phase == PHASE_BEGIN))
            break;
        if (message)
            found[count++] = seq;
    }
    while (count-- > 0) {
        if (!message_leaves(rounds, found[count], -1))
            return false;
        struct rounds_message *message = &rounds->messages[rounds->message_count - 1];
        size_t before = found[count], end = trace_partner(rounds->trace, found[count]);
        for (int back = 0; back < 64 && before-- > 0 && message->elements < 0; back++) {
            const struct trace_event *event = trace_event(rounds->trace, before);
            if (event->lane != trace_event(rounds->trace, found[count])->lane)
                continue;
            struct rounds_member told = { .elements = -1 };
            if (event->kind == kinds->numbers)
                note_numbers(rounds, event, &told);
            message->first = told.first, message->elements = told.elements;
            message->checksum = told.checksum, message->numbers = told.numbers;
            break;
        }
        message->arrived = end <= rounds->seq;
        note_current(rounds, found[count], (int)rounds->message_count - 1);
        rounds->here |= end == rounds->seq;
    }
    return true;
}

/* ---- the whole ---- */

static enum rounds_form
form_of(const char *kind)
{
    static const struct { const char *kind; enum rounds_form form; } forms[] = {
        { "allreduce", FORM_SUM }, { "reduce", FORM_SUM }, { "reduce_scatter", FORM_SUM }, { "allgather", FORM_PIECES },
        { "gather", FORM_PIECES }, { "scatter", FORM_PIECES }, { "alltoall", FORM_PIECES },
        { "broadcast", FORM_WHOLE }, { "barrier", FORM_MEETING },
    };
    for (size_t i = 0; i < countof(forms); i++)
        if (strcmp(forms[i].kind, kind) == 0)
            return forms[i].form;
    return FORM_MESSAGES;
}

/* Chunks of those that are always cut in the same way; those that add up say it (c10d.algorithm). */
static int
usual_columns(const struct rounds *rounds)
{
    bool fits = (int64_t)rounds->member_count * rounds->member_count <= CELLS_MOST;
    if (rounds->form == FORM_WHOLE)
        return 1;
    return rounds->form == FORM_PIECES && fits ? rounds->member_count : 0;
}

static int
log2_of(int number)
{
    int log = 0;
    while (number >> (log + 1) > 0)
        log++;
    return log;
}

static void
count_steps(struct rounds *rounds)
{
    int ranks = rounds->member_count, others = ranks - 1;
    bool sum = strcmp(rounds->kind, "allreduce") == 0, all = true;
    if (sum && rounds->cut == NULL)
        return;
    if (sum && strcmp(rounds->algorithm, "ring") == 0)
        rounds->steps = 2 * others;
    else if (sum && strcmp(rounds->algorithm, "halving_doubling") == 0 && ranks == rounds->columns)
        rounds->steps = 2 * log2_of(ranks);
    else if (!sum && (strcmp(rounds->kind, "allgather") == 0 || strcmp(rounds->kind, "alltoall") == 0))
        rounds->steps = others;
    for (int i = 0; rounds->cut != NULL && i < rounds->columns; i++)
        if (rounds->cut[i] == rounds->cut[i + 1])
            rounds->steps = 0;
    for (size_t i = 0; i < rounds->message_count; i++)
        all &= rounds->messages[i].bytes == rounds->bytes;
    if (sane(rounds->bytes, -1) < 0 || ranks > 1 << 10)
        return;
    if (sum)
        rounds->total = 2 * others * rounds->bytes;
    else if (rounds->form == FORM_WHOLE || strcmp(rounds->kind, "gather") == 0 || strcmp(rounds->kind, "scatter") == 0)
        rounds->total = others * rounds->bytes;
    else if (strcmp(rounds->kind, "allgather") == 0 && all)
        rounds->total = (int64_t)others * ranks * rounds->bytes;
}

static bool
rounds_fold(struct rounds *rounds)
{
    struct fold fold = { .rounds = rounds, .kinds = rounds_kinds(rounds->trace) };
    if (rounds->when == ROUNDS_NONE)
        return true;
    rounds->form = form_of(rounds->kind);
    if (rounds->member_count == 0)
        return fold_messages(rounds, &fold.kinds);
    rounds->columns = usual_columns(rounds);
    fold.members = calloc(trace_lanes(rounds->trace) + 1, sizeof *fold.members);
    bool folded = fold.members != NULL && place_shares(rounds) && fold_all(&fold);
    free(fold.members);
    if (folded)
        count_steps(rounds);
    return folded;
}

struct rounds *
rounds_at(struct trace *trace, const struct state *state, size_t seq)
{
    struct rounds *rounds = calloc(1, sizeof *rounds);
    if (rounds == NULL || seq >= trace_count(trace)) {
        free(rounds);
        return NULL;
    }
    *rounds = (struct rounds){ .trace = trace, .seq = seq, .kind = "", .algorithm = "", .sequence = -1, .bytes = -1,
                               .elements = -1, .bucket = -1, .root = -1, .total = -1, .current = -1 };
    if (rounds_find(rounds, state) && rounds_fold(rounds))
        return rounds;
    rounds_free(rounds);
    return NULL;
}

void
rounds_free(struct rounds *rounds)
{
    if (rounds == NULL)
        return;
    free(rounds->members);
    free(rounds->cut);
    free(rounds->shares);
    free(rounds->owners);
    free(rounds->messages);
    free(rounds->carried);
    free(rounds);
}

/* ---- questions ---- */

struct share
rounds_share(const struct rounds *rounds, int member, int column)
{
    return rounds->shares != NULL ? rounds->shares[member * rounds->columns + column] : (struct share){ 0 };
}

int
rounds_full(const struct rounds *rounds)
{
    return rounds->form == FORM_SUM ? rounds->member_count : 1;
}

/* What it is to have in the end. */
static bool
is_wanted(const struct rounds *rounds, int member, int column)
{
    if (rounds->cut != NULL && rounds->cut[column] == rounds->cut[column + 1])
        return false;
    if (strcmp(rounds->kind, "scatter") == 0 || strcmp(rounds->kind, "reduce_scatter") == 0)
        return member == column; /* of a reduce-scatter before pieces of another cut go home */
    if (strcmp(rounds->kind, "gather") == 0 || strcmp(rounds->kind, "reduce") == 0)
        return member == rounds->root;
    return true;
}

bool
rounds_is_done(const struct rounds *rounds, int member)
{
    bool done = rounds->columns > 0;
    for (int column = 0; column < rounds->columns && done; column++)
        done = !is_wanted(rounds, member, column) || rounds_share(rounds, member, column).count == rounds_full(rounds);
    return done;
}
