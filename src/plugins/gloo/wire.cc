/* See wire.h. */
#include "plugins/gloo/wire.h"

namespace ringside {

/* How long a wait sleeps before its waiter is asked. What comes wakes it at once. */
static constexpr std::chrono::milliseconds between_looks(2);

/* A connection to one peer. */
class Line final : public tcp::Pair {
public:
    Line(Wire *wire, tcp::Device *device, int peer, std::chrono::milliseconds timeout)
        : tcp::Pair(wire, device, peer, timeout), wire_(wire)
    {
    }

protected:
    void
    waitUntilConnected(std::unique_lock<std::mutex> &lock, bool) override
    {
        for (uint64_t looks = 0; state_ < CONNECTED; looks++) {
            throwIfException();
            cv_.wait_for(lock, between_looks);
            if (state_ >= CONNECTED)
                break;
            lock.unlock();
            bool go_on = wire_->waiter->pause(wire_->waiter->context, looks);
            bool late  = std::chrono::steady_clock::now() > wire_->meet_until;
            lock.lock();
            if (!go_on)
                throw GaveUp();
            if (late)
                throw TooLate();
        }
        throwIfException();
    }

    void
    changeState(state next) noexcept override
    {
        if (next == CLOSED && state_ != CLOSED)
            wire_->note_closed(rank_);
        tcp::Pair::changeState(next);
    }

    /* On Gloo's thread, where nobody catches: a message that is longer than what waits for it would end the program. */
    void
    handleReadWrite(int events) override
    {
        try {
            tcp::Pair::handleReadWrite(events);
        } catch (...) {
            signalException(std::current_exception());
        }
    }

private:
    Wire *const wire_;
};

Wire::Wire(std::shared_ptr<tcp::Device> device, int my_rank, int my_size)
    : tcp::Context(std::move(device), my_rank, my_size), closed_(static_cast<size_t>(my_size))
{
}

/* The connections look at members of this class until they are gone. */
Wire::~Wire()
{
    for (auto &pair : pairs_)
        pair.reset();
}

std::unique_ptr<gloo::transport::Pair> &
Wire::createPair(int peer)
{
    auto &pair = pairs_[static_cast<size_t>(peer)];
    pair.reset(new Line(this, device_.get(), peer, getTimeout()));
    return pair;
}

std::unique_ptr<gloo::transport::UnboundBuffer>
Wire::createUnboundBuffer(void *data, size_t bytes)
{
    return std::unique_ptr<gloo::transport::UnboundBuffer>(new Traced(self(), data, bytes));
}

std::shared_ptr<Wire>
Wire::self()
{
    return std::static_pointer_cast<Wire>(shared_from_this());
}

void
Wire::note_closed(int peer)
{
    int none = -1;
    closed_[static_cast<size_t>(peer)].store(true);
    first_closed_.compare_exchange_strong(none, peer);
}

Memory::Memory(const std::shared_ptr<Wire> &wire, void *data, size_t bytes)
    : tcp::UnboundBuffer(wire, data, bytes), wire_(wire.get())
{
}

/* Where nobody waited to the end, Gloo's thread may just have told it: that is over before the end. */
Memory::~Memory()
{
    std::lock_guard<std::mutex> lock(m_);
}

bool
Memory::look(int &completions)
{
    std::lock_guard<std::mutex> lock(m_);
    if (completions == 0) {
        throwIfException();
        return false;
    }
    completions--;
    return true;
}

bool
Memory::look_recv()
{
    return look(recvCompletions_);
}

bool
Memory::look_send()
{
    return look(sendCompletions_);
}

void
Memory::await(std::condition_variable &changed, int &completions)
{
    std::unique_lock<std::mutex> lock(m_);
    for (uint64_t looks = 0; completions == 0; looks++) {
        throwIfException();
        changed.wait_for(lock, between_looks);
        if (completions > 0)
            break;
        throwIfException();
        lock.unlock();
        if (!wire_->waiter->pause(wire_->waiter->context, looks))
            throw GaveUp();
        lock.lock();
    }
    completions--;
}

static void
hop_begins(const Wire *wire, const transport_hop &hop)
{
    if (wire->tells_hops && wire->waiter->hop_begin != nullptr)
        wire->waiter->hop_begin(wire->waiter->context, &hop);
}

static void
hop_ends(const Wire *wire, const transport_hop &hop)
{
    if (wire->tells_hops && wire->waiter->hop_end != nullptr)
        wire->waiter->hop_end(wire->waiter->context, &hop);
}

/* Whoever looks at hops has begun one: it ends, however the wait does. */
struct HopEnd {
    const Wire          *wire;
    const transport_hop &hop;
    ~HopEnd() { hop_ends(wire, hop); }
};

bool
Traced::waitRecv(int *peer, std::chrono::milliseconds)
{
    if (asked_.empty()) {
        await(recvCv_, recvCompletions_);
        if (peer != nullptr)
            *peer = recvRank_;
        return true;
    }
    Asked asked = std::move(asked_.front());
    asked_.erase(asked_.begin());
    hop_begins(wire_, asked.hop);
    HopEnd end{ wire_, asked.hop };
    Traced *from = asked.own ? static_cast<Traced *>(asked.own.get()) : this;
    from->await(from->recvCv_, from->recvCompletions_);
    if (peer != nullptr)
        *peer = asked.hop.peer;
    return true;
}

bool
Traced::waitSend(int *peer, std::chrono::milliseconds)
{
    await(sendCv_, sendCompletions_);
    if (peer != nullptr)
        *peer = sendRank_;
    return true;
}

void
Traced::send(int peer, uint64_t slot, size_t offset, size_t bytes)
{
    if (bytes == kUnspecifiedByteCount)
        bytes = size - offset;
    transport_hop hop{ peer, true, slot, static_cast<const char *>(ptr) + offset, bytes };
    hop_begins(wire_, hop);
    HopEnd end{ wire_, hop };
    Memory::send(peer, slot, offset, bytes);
}

void
Traced::recv(int peer, uint64_t slot, size_t offset, size_t bytes)
{
    if (bytes == kUnspecifiedByteCount)
        bytes = size - offset;
    char *at = static_cast<char *>(ptr) + offset;
    Asked asked{ { peer, false, slot, at, bytes }, nullptr };
    bool  others = false;
    for (const Asked &before : asked_)
        others = others || (before.hop.peer != peer && !before.own);
    if (others)
        asked.own.reset(new Traced(wire_->self(), at, bytes));
    Memory *to = asked.own ? asked.own.get() : this;
    asked_.push_back(std::move(asked));
    to->tcp::UnboundBuffer::recv(peer, slot, to == this ? offset : 0, bytes);
}

void
Traced::recv(std::vector<int> peers, uint64_t slot, size_t offset, size_t bytes)
{
    Memory::recv(std::move(peers), slot, offset, bytes);
}

} // namespace ringside
