/* Gloo's collectives for a call of the door. Gloo wants the parts of a rank in one row and refuses calls without elements;
 * its ring is the one whose order of sums is the rule.
 *
 * Order of use: collective_run picks one of run_... */
#include <cstring>
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include "plugins/gloo/channel.h"

namespace ringside {

/* Gloo asks for a type and uses its size. */
template <typename Body>
static void
by_size(size_t element, Body body)
{
    switch (element) {
    case 2:  body(static_cast<uint16_t *>(nullptr)); break;
    case 4:  body(static_cast<uint32_t *>(nullptr)); break;
    case 8:  body(static_cast<uint64_t *>(nullptr)); break;
    default: body(static_cast<uint8_t *>(nullptr)); break;
    }
}

static uint32_t
tag_of(const transport_call *call)
{
    return static_cast<uint32_t>(call->number);
}

/* into = a op b, where into is most often a. */
static void
fold(const transport_call *call, void *into, const void *a, const void *b, size_t elements)
{
    size_t bytes = elements * call->element;
    if (into == b) {
        call->reduce(call, into, a, bytes);
        return;
    }
    if (into != a)
        std::memcpy(into, a, bytes);
    call->reduce(call, into, b, bytes);
}

template <typename Options>
static void
set_reduction(Options &options, const transport_call *call, void *data)
{
    by_size(call->element, [&](auto *type) {
        options.setOutput(static_cast<decltype(type)>(data), call->span.bytes / call->element);
    });
    options.setReduceFunction([call](void *into, const void *a, const void *b, size_t n) { fold(call, into, a, b, n); });
    options.setTag(tag_of(call));
}

static void
run_all_reduce(Channel *c, const transport_call *call)
{
    gloo::AllreduceOptions options(c->group);
    set_reduction(options, call, call->span.data);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    gloo::allreduce(options);
}

/* Gloo's reduce uses every rank's memory as it goes: the others' is a copy. */
static void
run_reduce(Channel *c, const transport_call *call)
{
    gloo::ReduceOptions options(c->group);
    void               *data = call->span.data;
    if (c->rank != call->root) {
        c->spare.resize(call->span.bytes);
        std::memcpy(c->spare.data(), call->span.data, call->span.bytes);
        data = c->spare.data();
    }
    set_reduction(options, call, data);
    options.setRoot(call->root);
    gloo::reduce(options);
}

static void
run_broadcast(Channel *c, const transport_call *call)
{
    gloo::BroadcastOptions options(c->group);
    options.setOutput(static_cast<uint8_t *>(call->span.data), call->span.bytes);
    options.setRoot(call->root);
    options.setTag(tag_of(call));
    gloo::broadcast(options);
}

/* The parts of all ranks as Gloo wants them: one after the other. Where the caller's do not lie so, in `spare`. */
class Row {
public:
    Row(std::vector<char> &spare, size_t from, const transport_span *parts, int size) : parts_(parts), size_(size)
    {
        for (int r = 0; r < size; r++) {
            is_row_ = is_row_ && (parts[r].bytes == 0 || bytes_ == 0 || parts[r].data == first() + bytes_);
            if (first_ == nullptr && parts[r].bytes > 0)
                first_ = parts[r].data;
            even_ = even_ && parts[r].bytes == parts[0].bytes;
            bytes_ += parts[r].bytes;
        }
        if (is_row_)
            return;
        spare.resize(from + bytes_);
        first_ = spare.data() + from;
    }
    void
    fill() const
    {
        char *at = first();
        for (int r = 0; r < size_ && !is_row_; at += parts_[r++].bytes)
            if (parts_[r].bytes > 0)
                std::memcpy(at, parts_[r].data, parts_[r].bytes);
    }
    void
    empty() const
    {
        const char *at = first();
        for (int r = 0; r < size_ && !is_row_; at += parts_[r++].bytes)
            if (parts_[r].bytes > 0)
                std::memcpy(parts_[r].data, at, parts_[r].bytes);
    }
    template <typename Number>
    std::vector<Number>
    counts() const
    {
        std::vector<Number> counts;
        for (int r = 0; r < size_; r++)
            counts.push_back(static_cast<Number>(parts_[r].bytes));
        return counts;
    }
    char  *first() const { return static_cast<char *>(first_); }
    size_t bytes() const { return bytes_; }
    bool   even() const { return even_; }

private:
    const transport_span *parts_;
    int                   size_;
    void                 *first_ = nullptr;
    size_t                bytes_ = 0;
    bool                  is_row_ = true, even_ = true;
};

template <typename Options>
static void
set_both(Options &options, const transport_call *call, void *in, size_t in_bytes, void *out, size_t out_bytes)
{
    if (in != nullptr)
        options.setInput(static_cast<uint8_t *>(in), in_bytes);
    if (out != nullptr)
        options.setOutput(static_cast<uint8_t *>(out), out_bytes);
    options.setTag(tag_of(call));
}

static void
run_all_gather(Channel *c, const transport_call *call)
{
    Row row(c->spare, 0, call->outputs, c->size);
    if (row.bytes() == 0)
        return;
    if (row.even()) {
        gloo::AllgatherOptions options(c->group);
        set_both(options, call, call->span.data, call->span.bytes, row.first(), row.bytes());
        gloo::allgather(options);
    } else {
        gloo::AllgathervOptions options(c->group);
        options.setInput(static_cast<uint8_t *>(call->span.data), call->span.bytes);
        options.setOutput(reinterpret_cast<uint8_t *>(row.first()), row.counts<size_t>());
        options.setTag(tag_of(call));
        gloo::allgatherv(options);
    }
    row.empty();
}

static void
run_gather(Channel *c, const transport_call *call)
{
    gloo::GatherOptions options(c->group);
    options.setRoot(call->root);
    if (c->rank != call->root) {
        set_both(options, call, call->span.data, call->span.bytes, nullptr, 0);
        gloo::gather(options);
        return;
    }
    Row row(c->spare, 0, call->outputs, c->size);
    set_both(options, call, call->span.data, call->span.bytes, row.first(), row.bytes());
    gloo::gather(options);
    row.empty();
}

static void
run_scatter(Channel *c, const transport_call *call)
{
    gloo::ScatterOptions   options(c->group);
    std::vector<uint8_t *> inputs;
    for (int r = 0; r < c->size && c->rank == call->root; r++)
        inputs.push_back(static_cast<uint8_t *>(call->inputs[r].data));
    if (c->rank == call->root)
        options.setInputs(inputs, call->span.bytes);
    options.setOutput(static_cast<uint8_t *>(call->span.data), call->span.bytes);
    options.setRoot(call->root);
    options.setTag(tag_of(call));
    gloo::scatter(options);
}

/* Nobody knows whether others have something to swap: all take part, a rank without anything with a byte's address. */
static void
run_all_to_all(Channel *c, const transport_call *call)
{
    char                   none[2];
    size_t                 total = 0;
    for (int r = 0; r < c->size; r++)
        total += call->inputs[r].bytes;
    c->spare.resize(total);
    Row in(c->spare, 0, call->inputs, c->size);
    Row out(c->spare, total, call->outputs, c->size);
    Row again(c->spare, 0, call->inputs, c->size);       /* `out` may have moved the memory */
    again.fill();
    gloo::AlltoallvOptions options(c->group);
    options.setInput(reinterpret_cast<uint8_t *>(again.bytes() > 0 ? again.first() : none), again.counts<int64_t>());
    options.setOutput(reinterpret_cast<uint8_t *>(out.bytes() > 0 ? out.first() : none + 1), out.counts<int64_t>());
    options.setTag(tag_of(call));
    gloo::alltoallv(options);
    out.empty();
}

static void
run_barrier(Channel *c, const transport_call *call)
{
    gloo::BarrierOptions options(c->group);
    options.setTag(tag_of(call));
    gloo::barrier(options);
}

bool
collective_is(transport_operation operation)
{
    return operation != TRANSPORT_REDUCE_SCATTER && operation < TRANSPORT_OPERATIONS;
}

/* Of one rank: its own part is copied, nothing else. */
static void
run_alone(const transport_call *call)
{
    const transport_span *from = &call->span, *to = nullptr;
    switch (call->operation) {
    case TRANSPORT_ALL_GATHER:
    case TRANSPORT_GATHER:     to = call->outputs; break;
    case TRANSPORT_SCATTER:    from = call->inputs; to = &call->span; break;
    case TRANSPORT_ALL_TO_ALL: from = call->inputs; to = call->outputs; break;
    default:                   break;
    }
    if (to != nullptr && to->bytes > 0)
        std::memcpy(to->data, from->data, to->bytes);
}

void
collective_run(Channel *c, const transport_call *call)
{
    bool spans = call->operation != TRANSPORT_BARRIER && call->operation != TRANSPORT_ALL_TO_ALL &&
                 call->operation != TRANSPORT_ALL_GATHER;
    if (c->size == 1)
        run_alone(call);
    else if (!spans || call->span.bytes > 0)
        switch (call->operation) {
        case TRANSPORT_ALL_REDUCE: run_all_reduce(c, call); break;
        case TRANSPORT_BROADCAST:  run_broadcast(c, call); break;
        case TRANSPORT_REDUCE:     run_reduce(c, call); break;
        case TRANSPORT_ALL_GATHER: run_all_gather(c, call); break;
        case TRANSPORT_GATHER:     run_gather(c, call); break;
        case TRANSPORT_SCATTER:    run_scatter(c, call); break;
        case TRANSPORT_ALL_TO_ALL: run_all_to_all(c, call); break;
        default:                   run_barrier(c, call); break;
        }
}

} // namespace ringside
