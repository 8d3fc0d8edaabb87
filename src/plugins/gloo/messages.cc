/* See messages.h. All of it runs under one lock, which nobody holds while waiting. */
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>
#include "plugins/gloo/channel.h"

namespace ringside {

/* Gloo's collectives take prefixes 1 to 8. Serials need the rest. */
static constexpr uint64_t letter_slot = uint64_t(0x40) << 56, data_slot = uint64_t(0x41) << 56;
/* So many envelopes a peer may send before anybody looks. */
enum { OPEN_LETTERS = 4 };
/* A peer's last envelope: it wants nothing more. */
static constexpr uint64_t farewell = uint64_t(1) << 40;
/* How long an orderly end waits for the others' farewells. */
static constexpr std::chrono::milliseconds leave_time(2000);

void
Mail::open_one(int peer)
{
    std::unique_ptr<Letter> letter(new Letter);
    letter->peer = peer;
    letter->memory.reset(new Memory(wire_, &letter->envelope, sizeof letter->envelope));
    letter->memory->recv(peer, letter_slot, 0, sizeof letter->envelope);
    peer_at(peer).open.push_back(std::move(letter));
}

void
Mail::open(const std::shared_ptr<Wire> &wire, const std::vector<int> *ranks)
{
    wire_  = wire;
    ranks_ = ranks;
    peers_ = std::vector<Peer>(static_cast<size_t>(wire->size));
    for (int peer = 0; peer < wire->size; peer++)
        for (int i = 0; i < OPEN_LETTERS && peer != wire->rank; i++)
            open_one(peer);
}

/* Inside a catch clause: says why once, ends everything that only this peer could settle. */
void
Mail::lose(int peer)
{
    transport_why why;
    why_say(&why, ranks_, nullptr);
    Peer &p = peer_at(peer);
    if (p.lost.empty()) {
        bool reset = std::strstr(why.text, "reset") != nullptr || std::strstr(why.text, "pipe") != nullptr;
        p.lost     = "the connection to rank " + std::to_string((*ranks_)[static_cast<size_t>(peer)]) +
                 (reset ? " was reset" : " was closed");
    }
    bool all = true;
    for (size_t r = 0; r < peers_.size(); r++)
        all = all && (static_cast<int>(r) == wire_->rank || !peers_[r].lost.empty());
    for (auto &errand : errands_)
        if (errand->state == TRANSPORT_PENDING && (errand->peer == peer || (errand->peer == TRANSPORT_ANY && all)) &&
            !settled(errand.get())) {
            errand->state = TRANSPORT_FAILED;
            errand->why   = p.lost;
        }
}

/* Whether Gloo is through with it: what came before a connection ended has come. That it ended is told by the letters. */
bool
Mail::settled(Errand *errand) noexcept
{
    try {
        if (!errand->memory || !(errand->is_send ? errand->memory->look_send() : errand->memory->look_recv()))
            return false;
    } catch (...) {
        return false;
    }
    errand->memory.reset();
    errand->state = TRANSPORT_DONE;
    return true;
}

bool
Mail::fits(const Errand *errand, const Letter *letter) const
{
    return !errand->is_send && errand->state == TRANSPORT_PENDING && !errand->memory && errand->tag == letter->envelope.tag &&
           (errand->peer == TRANSPORT_ANY || errand->peer == letter->peer);
}

void
Mail::too_long(Errand *errand, const Letter *letter)
{
    const Envelope &e = letter->envelope;
    errand->state = TRANSPORT_FAILED;
    errand->why   = "a message of " + std::to_string(e.bytes) + " bytes came for a room of " + std::to_string(errand->bytes);
    if (e.bytes <= envelope_room)
        return;
    std::unique_ptr<Errand> sink(new Errand);
    sink->is_sink = true;
    sink->peer    = letter->peer;
    sink->own.resize(e.bytes);
    sink->memory.reset(new Memory(wire_, sink->own.data(), sink->own.size()));
    sink->memory->recv(letter->peer, data_slot | e.serial, 0, sink->own.size());
    errands_.push_back(std::move(sink));
}

void
Mail::deliver(Errand *errand, const Letter *letter)
{
    const Envelope &e = letter->envelope;
    errand->peer = letter->peer;
    if (e.bytes > errand->bytes) {
        too_long(errand, letter);
        return;
    }
    errand->bytes = e.bytes;
    if (e.bytes <= envelope_room) {
        if (e.bytes > 0)
            std::memcpy(errand->data, e.inside, e.bytes);
        errand->state = TRANSPORT_DONE;
        return;
    }
    errand->memory.reset(new Memory(wire_, errand->data, e.bytes));
    errand->memory->recv(letter->peer, data_slot | e.serial, 0, e.bytes);
}

void
Mail::arrived(std::unique_ptr<Letter> letter)
{
    letter->memory.reset();
    if (letter->envelope.tag == farewell) {
        peer_at(letter->peer).has_left = true;
        return;
    }
    for (auto &errand : errands_)
        if (fits(errand.get(), letter.get())) {
            deliver(errand.get(), letter.get());
            return;
        }
    unread_.push_back(std::move(letter));
}

void
Mail::advance_peer(int peer)
{
    Peer &p = peer_at(peer);
    try {
        while (p.lost.empty() && !p.open.empty() && p.open.front()->memory->look_recv()) {
            std::unique_ptr<Letter> letter = std::move(p.open.front());
            p.open.pop_front();
            arrived(std::move(letter));
            open_one(peer);
        }
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        lose(peer);
    }
}

void
Mail::advance()
{
    for (int peer = 0; peer < wire_->size; peer++)
        if (peer != wire_->rank)
            advance_peer(peer);
    for (auto at = errands_.begin(); at != errands_.end();) {
        if ((*at)->state == TRANSPORT_PENDING)
            settled(at->get());
        at = (*at)->is_sink && (*at)->state != TRANSPORT_PENDING ? errands_.erase(at) : std::next(at);
    }
    for (auto at = leaving_.begin(); at != leaving_.end();) {
        bool gone = true;
        try {
            gone = (*at)->memory->look_send();
        } catch (...) {
            lose((*at)->peer);
        }
        at = gone ? leaving_.erase(at) : std::next(at);
    }
}

/* Letters to a peer keep the order of the calls. */
void
Mail::post(std::unique_ptr<Letter> letter, size_t inside)
{
    size_t total = envelope_head + inside;
    letter->memory.reset(new Memory(wire_, &letter->envelope, total));
    leaving_.push_back(std::move(letter));
    leaving_.back()->memory->send(leaving_.back()->peer, letter_slot, 0, total);
}

/* A short message is done once it is posted. */
Errand *
Mail::send(int peer, uint32_t tag, const void *data, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock_);
    std::unique_ptr<Errand>     errand(new Errand);
    std::unique_ptr<Letter>     letter(new Letter);
    Peer                       &p       = peer_at(peer);
    bool                        is_long = bytes > envelope_room;
    advance();
    if (!p.lost.empty())
        throw std::runtime_error(p.lost);
    uint64_t serial  = is_long ? p.next_serial++ : 0;
    letter->peer     = peer;
    letter->envelope.tag    = tag;
    letter->envelope.bytes  = bytes;
    letter->envelope.serial = serial;
    if (!is_long && bytes > 0)
        std::memcpy(letter->envelope.inside, data, bytes);
    errand->is_send = true;
    errand->peer    = peer;
    errand->bytes   = bytes;
    if (is_long)
        errand->memory.reset(new Memory(wire_, const_cast<void *>(data), bytes));
    else
        errand->state = TRANSPORT_DONE;
    Errand *kept = errand.get();
    errands_.push_back(std::move(errand));
    try {
        post(std::move(letter), is_long ? 0 : bytes);
        if (is_long)
            kept->memory->send(peer, data_slot | serial, 0, bytes);
    } catch (...) {
        lose(peer);
        kept->state = TRANSPORT_FAILED;
        kept->why   = p.lost;
    }
    return kept;
}

Errand *
Mail::recv(int peer, uint32_t tag, void *data, size_t room)
{
    std::lock_guard<std::mutex> guard(lock_);
    std::unique_ptr<Errand>     errand(new Errand);
    advance();
    errand->peer  = peer;
    errand->tag   = tag;
    errand->data  = data;
    errand->bytes = room;
    Errand *kept  = errand.get();
    errands_.push_back(std::move(errand));
    auto at = std::find_if(unread_.begin(), unread_.end(),
                           [&](const std::unique_ptr<Letter> &letter) { return fits(kept, letter.get()); });
    if (at != unread_.end()) {
        std::unique_ptr<Letter> letter = std::move(*at);
        unread_.erase(at);
        try {
            deliver(kept, letter.get());
        } catch (const std::bad_alloc &) {
            errands_.pop_back();
            throw;
        } catch (...) {
            lose(letter->peer);
        }
    } else if (peer != TRANSPORT_ANY && !peer_at(peer).lost.empty()) {
        kept->state = TRANSPORT_FAILED;
        kept->why   = peer_at(peer).lost;
    }
    return kept;
}

transport_state
Mail::test(Errand *errand)
{
    std::lock_guard<std::mutex> guard(lock_);
    if (errand->state == TRANSPORT_PENDING)
        advance();
    return errand->state;
}

/* The memory's end waits until Gloo's thread has its hands off it. */
void
Mail::forget(Errand *errand)
{
    std::lock_guard<std::mutex> guard(lock_);
    errands_.remove_if([&](const std::unique_ptr<Errand> &at) { return at.get() == errand; });
}

void
Mail::say_farewell()
{
    std::lock_guard<std::mutex> guard(lock_);
    for (int peer = 0; peer < wire_->size; peer++) {
        if (peer == wire_->rank || !peer_at(peer).lost.empty())
            continue;
        std::unique_ptr<Letter> letter(new Letter);
        letter->peer           = peer;
        letter->envelope.tag   = farewell;
        letter->envelope.bytes = letter->envelope.serial = 0;
        try {
            post(std::move(letter), 0);
        } catch (...) {
            lose(peer);
        }
    }
}

bool
Mail::all_left()
{
    std::lock_guard<std::mutex> guard(lock_);
    advance();
    for (int peer = 0; peer < wire_->size; peer++)
        if (peer != wire_->rank && peer_at(peer).lost.empty() && !peer_at(peer).has_left)
            return false;
    return leaving_.empty();
}

/* Whoever closes a connection takes from the other what has not been read: in good order, all say farewell before. */
void
Mail::close(bool broken)
{
    auto until = std::chrono::steady_clock::now() + leave_time;
    if (!broken)
        say_farewell();
    while (!broken && !all_left() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    errands_.clear();
    leaving_.clear();
    unread_.clear();
    peers_.clear();
}

} // namespace ringside
