/* Meeting: each rank writes down where it listens for each other one, and reads where the others do.
 *
 * Order of use: transport_open, then channel_connect for each group. */
#include <csignal>
#include <cstdlib>
#include <gloo/barrier.h>
#include <new>
#include <stdexcept>
#include <string>
#include "plugins/gloo/channel.h"

namespace ringside {

Group::Group(int my_rank, int my_size, std::shared_ptr<tcp::Device> device, std::shared_ptr<Wire> wire)
    : gloo::Context(my_rank, my_size)
{
    device_           = std::move(device);
    transportContext_ = std::move(wire);
    timeout_          = std::chrono::hours(24);        /* Gloo's own: the waiter is who gives up */
}

/* Gloo's thread takes no signal: those are the program's. */
static std::shared_ptr<tcp::Device>
device_new(const char *host)
{
    sigset_t all, was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    std::shared_ptr<gloo::transport::Device> device;
    std::exception_ptr                       failed;
    try {
        gloo::transport::tcp::attr attr;
        attr.hostname = host;
        device        = gloo::transport::tcp::CreateDevice(attr);
    } catch (...) {
        failed = std::current_exception();
    }
    pthread_sigmask(SIG_SETMASK, &was, nullptr);
    if (failed)
        std::rethrow_exception(failed);
    return std::dynamic_pointer_cast<tcp::Device>(device);
}

Transport *
transport_open(const transport_options *options)
{
    const char *host = options->host != nullptr ? options->host : "127.0.0.1";
    std::unique_ptr<Transport> t(new Transport);
    try {
        t->device = device_new(host);
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &) {
    }
    if (!t->device)
        throw std::runtime_error(std::string("this process cannot listen at '") + host + "'");
    return t.release();
}

static std::string
key_of(const transport_channel_options *o, int rank)
{
    return std::string("gloo/") + o->name + "/" + std::to_string(rank);
}

/* All my addresses, one a peer, each with its length before it. */
static void
tell_addresses(Channel *c, const transport_channel_options *o)
{
    std::string all;
    for (int peer = 0; peer < c->size; peer++) {
        std::vector<char> bytes;
        if (peer != c->rank)
            bytes = c->wire->getPair(peer)->address().bytes();
        uint32_t length = static_cast<uint32_t>(bytes.size());
        all.append(reinterpret_cast<const char *>(&length), sizeof length);
        all.append(bytes.begin(), bytes.end());
    }
    if (!o->store->set(o->store->context, key_of(o, c->rank).c_str(), all.data(), all.size()))
        throw std::runtime_error("the store does not take this process's address");
}

/* Where `peer` listens for me. */
static std::vector<char>
pick_address(const Channel *c, int peer, const char *all, size_t count)
{
    size_t   at     = 0;
    uint32_t length = 0;
    for (int r = 0; r <= c->rank; r++) {
        at += r > 0 ? length : 0;
        if (count - at < sizeof length)
            break;
        __builtin_memcpy(&length, all + at, sizeof length);
        at += sizeof length;
        if (length > count - at)
            break;
        if (r == c->rank && length > 0 && length <= gloo::transport::Address::kMaxByteSize)
            return std::vector<char>(all + at, all + at + length);
    }
    throw std::runtime_error("the store holds no address of rank " + std::to_string(c->ranks[static_cast<size_t>(peer)]) +
                             " for this process: is its group another one?");
}

static std::vector<char>
ask_address(Channel *c, int peer, const transport_channel_options *o)
{
    std::string key = key_of(o, peer);
    for (uint64_t looks = 0;; looks++) {
        void  *bytes = nullptr;
        size_t count = 0;
        int    there = o->store->get(o->store->context, key.c_str(), &bytes, &count);
        std::unique_ptr<void, void (*)(void *)> freed(bytes, std::free);
        if (there < 0)
            throw std::runtime_error("the store does not answer where rank " +
                                     std::to_string(c->ranks[static_cast<size_t>(peer)]) + " is");
        if (there > 0)
            return pick_address(c, peer, static_cast<const char *>(bytes), count);
        if (!o->waiter->pause(o->waiter->context, looks))
            throw GaveUp();
        if (std::chrono::steady_clock::now() > c->wire->meet_until)
            throw TooLate();
    }
}

/* Nobody is through before all are connected: one that is done early and leaves would not be met by the rest. */
static void
all_here(const Channel *c)
{
    if (c->size == 1)
        return;
    gloo::BarrierOptions options(c->group);
    options.setTag(UINT32_MAX);
    gloo::barrier(options);
}

Channel *
channel_connect(Transport *t, const transport_channel_options *o)
{
    std::unique_ptr<Channel> c(new Channel);
    c->ranks.assign(o->ranks, o->ranks + o->size);
    c->rank = o->rank;
    c->size = o->size;
    c->ignores_pipe = pipe_is_ignored();
    c->wire = std::make_shared<Wire>(t->device, o->rank, o->size);
    c->wire->setTimeout(std::chrono::hours(24));
    c->wire->waiter     = o->waiter;
    c->wire->meet_until = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(o->timeout_ms != 0 ? o->timeout_ms : 30 * 60 * 1000);
    c->group = std::make_shared<Group>(o->rank, o->size, t->device, c->wire);
    try {
        for (int peer = 0; peer < c->size; peer++)
            if (peer != c->rank)
                c->wire->createPair(peer);
        if (c->size > 1)
            tell_addresses(c.get(), o);
        for (int peer = 0; peer < c->size; peer++)
            if (peer != c->rank)
                c->wire->getPair(peer)->connect(ask_address(c.get(), peer, o));
        c->mail.open(c->wire, &c->ranks);
        all_here(c.get());
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &) {
        transport_why why;
        why_say(&why, &c->ranks, c->wire.get());
        throw std::runtime_error(why.text);
    }
    c->wire->waiter = nullptr;
    return c.release();
}

} // namespace ringside
