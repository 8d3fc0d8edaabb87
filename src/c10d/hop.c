/* Hops: what every algorithm is made of. In one hop a rank sends a message over one link, receives one over another, or
 * both at once; what comes takes the place of elements or is reduced into them. Each message is one comm.hop, told on
 * the lane of its sender, behind a comm.numbers with what it carries; a rank that only receives tells comm.receive.
 * Order of use: fill a struct hop, hop_run; or a struct exchange, for parts of one tensor, exchange_run. */
#include <string.h>
#include "base/dtype.h"
#include "c10d/local.h"
#include "device/storage.h"
#include "sched/stage.h"
#include "tensor/cpu/wide.h"

/* Up to so many ranks a hop tells this many numbers of its message, above it these few. */
enum { WORLD_WITH_NUMBERS = 64, NUMBERS = 256, NUMBERS_IN_LARGE_WORLDS = 8 };
/* Above it, over all ranks, a tensor tells the trace its elements at the end only. */
enum { TOLD_BYTES = 4096 };

/* ---- what a message carries ---- */

static int
hop_dtype(const struct collective *call)
{
    const struct tensor *tensor = call->tensor != NULL ? call->tensor : call->inputs != NULL ? call->inputs[0] : NULL;
    return tensor != NULL ? (int)tensor->dtype : DTYPE_U8;
}

/* Of a float's bits without its sign: what infinity has; above it lie NaNs. */
static uint64_t
infinity_bits(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F64: return 0x7ff0000000000000;
    case DTYPE_F32: return 0x7f800000;
    case DTYPE_F16: return 0x7c00;
    case DTYPE_BF16: return 0x7f80;
    default: return UINT64_MAX;
    }
}

/* The same sum for elements of four bytes, where messages are long. */
WIDE static uint64_t
sum_words(const char *data, size_t count, uint32_t value, uint64_t most)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, data + i * sizeof bits, sizeof bits);
        sum += (2 * i + 1) * ((bits & value) > most ? most + 1 : bits);
    }
    return sum;
}

/* The sum of (2 i + 1) times the bits of element i, all NaNs alike, folded to 32 bits. */
static int64_t
numbers_checksum(enum dtype dtype, const char *data, size_t count)
{
    size_t   element = dtype_size(dtype);
    uint64_t sum = 0, most = infinity_bits(dtype), value = UINT64_MAX >> (65 - 8 * element);
    if (element == sizeof(uint32_t)) {
        sum   = sum_words(data, count, (uint32_t)value, most);
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, data + i * element, element);
        sum += (2 * i + 1) * ((bits & value) > most ? most + 1 : bits);
    }
    return (int64_t)((sum ^ sum >> 32) & UINT32_MAX);
}

/* In `stepped`, where what is told repeats: what somebody who looks over the sender's shoulder would see. */
static void
hop_tell_numbers(struct task *me, const struct collective *call, const struct hop *hop)
{
    const struct channel *channel = hop->out->channel;
    enum dtype            dtype   = (enum dtype)(hop->direct ? hop->dtype : hop_dtype(call));
    int64_t               count   = (int64_t)(hop->send.bytes / dtype_size(dtype));
    if (!sched_is_stepped(me->sched) || !stage_enabled(me, KIND_comm_numbers))
        return;
    int64_t most = channel->local->size > WORLD_WITH_NUMBERS ? NUMBERS_IN_LARGE_WORLDS : NUMBERS;
    int64_t told = count < most ? count : most, sum = numbers_checksum(dtype, hop->send.data, (size_t)count);
    struct storage_content content = { (int)dtype, 1, &told, hop->send.data, NULL };
    int64_t snapshot = (int64_t)elements_snapshot(me, &content);
    POINT(me, comm_numbers, hop->send.first, count, sum, snapshot);
}

bool
hop_tells(const struct collective *call)
{
    return call->bytes * call->ranks <= TOLD_BYTES;
}

void
hop_tell(struct task *me, const struct collective *call)
{
    if (hop_tells(call))
        tensor_tell(me, call->tensor);
}

/* ---- hops ---- */

static const struct carrier *
carrier_of(const struct link *link)
{
    return link->channel->carrier;
}

static bool
hop_take(struct task *me, const struct collective *call, struct hop *hop)
{
    struct reduction reduction = { .on = hop->reduce && !hop->aside, .op = call->options.op };
    if (call->tensor != NULL)
        reduction.dtype = (int)call->tensor->dtype;
    bool taken = carrier_of(hop->in)->take(me, call, hop->in, &hop->receive, &reduction);
    return taken && (hop->received == NULL || hop->received(me, hop));
}

static bool
hop_depart(struct task *me, const struct collective *call, struct hop *hop)
{
    if (sched_has_faults(me->sched))
        hop->send.fault = fault_message(me, hop->out->sender, hop->out->receiver);
    if (hop->carry != NULL)
        return hop->carry(me, hop);
    if (hop->direct)
        return link_carry(me, hop->out, &hop->send);
    return carrier_of(hop->out)->put(me, call, hop->out, &hop->send);
}

static bool
hop_land(struct task *me, const struct collective *call, struct hop *hop)
{
    if (hop->goes_on || hop->direct)
        return true;
    return carrier_of(hop->out)->land(me, call, hop->out);
}

/* The chunk, where it lies in the call's tensor and not in a buffer of the algorithm's own. */
static void
hop_announce(struct task *me, const struct collective *call, const void *data, int64_t bytes)
{
    const struct tensor *tensor = call != NULL ? call->tensor : NULL;
    const char          *begin  = tensor != NULL ? tensor_elements(tensor) : NULL;
    if (begin == NULL || (const char *)data < begin || (const char *)data + bytes > begin + tensor_bytes(tensor))
        return;
    int64_t element = (int64_t)dtype_size(tensor->dtype);
    tensor_announce_part(me, tensor, ((const char *)data - begin) / element, bytes / element, "chunk");
}

/* A message goes to one rank while another comes from another one, and is added to ours or takes its
 * place. The send comes first: if all received first, all would wait. Over when both have arrived. */
static bool
hop_send(struct task *me, const struct collective *call, struct hop *hop)
{
    int64_t bytes = (int64_t)hop->send.bytes;
    hop_announce(me, call, hop->send.data, bytes);
    STAGE(me, comm_hop, hop->chunk, bytes, hop->out->receiver, hop->reduce);
    if (!hop_depart(me, call, hop))
        return false;
    if (hop->in != NULL && !hop_take(me, call, hop)) {
        if (!hop->direct)
            carrier_of(hop->out)->withdraw(me, hop->out);
        return false;
    }
    if (!hop_land(me, call, hop))
        return false;
    if (hop->in != NULL)
        stage_arrive(&stage_, hop->receive.flow);
    return true;
}

/* Nothing of ours leaves meanwhile. */
static bool
hop_receive(struct task *me, const struct collective *call, struct hop *hop)
{
    int64_t bytes = (int64_t)hop->receive.bytes;
    hop_announce(me, call, hop->receive.data, bytes);
    STAGE(me, comm_receive, hop->chunk, bytes, hop->in->sender, hop->reduce);
    if (!hop_take(me, call, hop))
        return false;
    stage_arrive(&stage_, hop->receive.flow);
    return true;
}

/* An empty message is not sent, unless that is asked for: its receiver knows that too. */
bool
hop_run(struct task *me, const struct collective *call, struct hop *hop)
{
    if (task_failed(me))
        return false;
    if (hop->in != NULL && hop->receive.bytes == 0 && !hop->even_empty)
        hop->in = NULL;
    if (hop->out != NULL && (hop->send.bytes > 0 || hop->even_empty)) {
        hop_tell_numbers(me, call, hop); /* before it leaves: who stands at the hop knows them */
        if (!hop->direct && stage_enabled(me, KIND_comm_hop))
            stage_depart(me, hop->send.flow = carrier_of(hop->out)->next_flow(me, hop->out));
        return hop_send(me, call, hop);
    }
    return hop->in == NULL || hop_receive(me, call, hop);
}

/* ---- parts of a tensor ---- */

struct part
part_of(struct part whole, int index, int parts)
{
    int64_t each = (whole.count + parts - 1) / parts, begin = each * index, end = begin + each;
    begin = begin < whole.count ? begin : whole.count;
    end   = end < whole.count ? end : whole.count;
    return (struct part){ whole.first + begin, end - begin };
}

struct message
part_message(const struct collective *call, struct part part)
{
    size_t element = dtype_size(call->tensor->dtype);
    char  *data    = tensor_elements(call->tensor);
    return (struct message){ .data = data + (size_t)part.first * element, .bytes = (size_t)part.count * element,
                             .first = part.first };
}

static bool
exchange_received(struct task *me, struct hop *hop)
{
    hop_tell(me, hop->context);
    return true;
}

bool
exchange_run(struct task *me, const struct collective *call, const struct exchange *exchange)
{
    struct hop hop = { .chunk = exchange->chunk, .reduce = exchange->reduce, .goes_on = exchange->goes_on,
                       .out = exchange->out, .in = exchange->in,
                       .received = exchange_received, .context = (void *)(uintptr_t)call };
    if (rehearses(call))
        return rehearsal_note(me, call, exchange);
    if (exchange->to >= 0 && hop.out == NULL &&
        (hop.out = link_between(me, call->channel, call->rank, exchange->to)) == NULL)
        return false;
    if (exchange->from >= 0 && hop.in == NULL &&
        (hop.in = link_between(me, call->channel, exchange->from, call->rank)) == NULL)
        return false;
    hop.send            = part_message(call, exchange->send);
    hop.receive         = part_message(call, exchange->receive);
    hop.send.in_turn    = exchange->in_turn;
    hop.receive.in_turn = exchange->in_turn;
    hop.send.in_place   = exchange->in_place;
    return hop_run(me, call, &hop);
}
