/* Gloo's TCP transport with this project's own way of waiting: who blocks asks its waiter, and each message of a collective is
 * told as a hop. Gloo's classes do all the work; what is derived from them looks at what they know.
 *
 * In use: make_shared<Wire> for each channel, createPair for each peer, Pair::connect; buffers by createUnboundBuffer. */
#ifndef PLUGINS_GLOO_WIRE_H
#define PLUGINS_GLOO_WIRE_H
#include <atomic>
#include <chrono>
#include <exception>
#include <vector>
#include <gloo/context.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>
#include "c10d/transport.h"

namespace ringside {

namespace tcp = gloo::transport::tcp;

/* The waiter said so: no error, and no sentence. */
struct GaveUp {};
/* The time for meeting is over. */
struct TooLate {};

class Wire : public tcp::Context {
public:
    Wire(std::shared_ptr<tcp::Device> device, int rank, int size);
    ~Wire() override;

    std::unique_ptr<gloo::transport::Pair> &createPair(int peer) override;
    /* For collectives: tells hops, asks the waiter of the call. */
    std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void *data, size_t bytes) override;
    std::shared_ptr<Wire> self();

    /* A connection ended that was not closed by this side; -1: none did. */
    int  first_closed() const { return first_closed_.load(); }
    bool is_closed(int peer) const { return closed_[static_cast<size_t>(peer)].load(); }
    void note_closed(int peer);

    const transport_waiter               *waiter = nullptr;     /* of the call that is under way, or of connecting */
    bool                                  tells_hops = false;
    std::chrono::steady_clock::time_point meet_until;

private:
    std::vector<std::atomic<bool>> closed_;
    std::atomic<int>              first_closed_{ -1 };
};

/* A piece of memory that a message leaves from or comes to. */
class Memory : public tcp::UnboundBuffer {
public:
    Memory(const std::shared_ptr<Wire> &wire, void *data, size_t bytes);
    ~Memory() override;

    /* Whether a receive or a send has ended since the last time this said so; throws what became of the connection. */
    bool look_recv();
    bool look_send();

protected:
    bool look(int &completions);
    void await(std::condition_variable &changed, int &completions);
    Wire *const wire_;
};

/* Memory of a collective. */
class Traced : public Memory {
public:
    using Memory::Memory;
    bool waitRecv(int *peer, std::chrono::milliseconds) override;
    bool waitSend(int *peer, std::chrono::milliseconds) override;
    void send(int peer, uint64_t slot, size_t offset, size_t bytes) override;
    void recv(int peer, uint64_t slot, size_t offset, size_t bytes) override;
    void recv(std::vector<int> peers, uint64_t slot, size_t offset, size_t bytes) override;

private:
    /* A receive that was asked for. What comes from another peer than those before it has a buffer of its own, so
     * that it is known which of them is waited for. */
    struct Asked {
        transport_hop           hop;
        std::unique_ptr<Memory> own;
    };
    std::vector<Asked> asked_;
};

} // namespace ringside
#endif
