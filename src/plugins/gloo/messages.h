/* Messages between two ranks of a channel. Gloo's own ends the program where one is longer than its room, and cannot forget a
 * receive that was asked for; so each message has an envelope that says its tag and length. Receives for envelopes stand
 * open with every peer. Short messages lie in their envelope; the data of a long one follows by itself, once the receiver knows
 * where to.
 *
 * In use: open; send, recv, test, cancel from any thread; close. */
#ifndef PLUGINS_GLOO_MESSAGES_H
#define PLUGINS_GLOO_MESSAGES_H
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "plugins/gloo/wire.h"

namespace ringside {

constexpr size_t envelope_room = 4096;

struct Envelope {
    uint64_t tag, bytes, serial;       /* serial: of the sender's long messages to this receiver; names the slot of the data */
    char     inside[envelope_room];
};
constexpr size_t envelope_head = offsetof(Envelope, inside);

/* An envelope and the memory Gloo sends it from or receives it in. */
struct Letter {
    Envelope                envelope;
    std::unique_ptr<Memory> memory;
    int                     peer = -1;
};

/* A send or receive of the caller. */
struct Errand {
    bool                    is_send = false, is_sink = false;
    int                     peer = -1;          /* TRANSPORT_ANY until it is known */
    uint64_t                tag = 0;
    void                   *data = nullptr;
    size_t                  bytes = 0;          /* room, then what came */
    std::unique_ptr<Memory> memory;             /* Gloo works on it */
    transport_state         state = TRANSPORT_PENDING;
    std::string             why;
    std::vector<char>       own;                /* a sink's: takes what was too long, so that the sender is done */
};

class Mail {
public:
    void            open(const std::shared_ptr<Wire> &wire, const std::vector<int> *ranks);
    void            close(bool broken);
    Errand         *send(int peer, uint32_t tag, const void *data, size_t bytes);
    Errand         *recv(int peer, uint32_t tag, void *data, size_t room);
    transport_state test(Errand *errand);        /* PENDING, or the errand is settled: its fields say how */
    void            forget(Errand *errand);      /* settled or not */

private:
    struct Peer {
        std::deque<std::unique_ptr<Letter>> open;           /* receives that stand open, in order */
        uint64_t                            next_serial = 0;
        std::string                         lost;           /* why nothing comes from it any more */
        bool                                has_left = false;
    };
    void advance();
    bool settled(Errand *errand) noexcept;
    void post(std::unique_ptr<Letter> letter, size_t inside);
    void say_farewell();
    bool all_left();
    void advance_peer(int peer);
    void open_one(int peer);
    void arrived(std::unique_ptr<Letter> letter);
    void deliver(Errand *errand, const Letter *letter);
    void too_long(Errand *errand, const Letter *letter);
    void lose(int peer);
    bool fits(const Errand *errand, const Letter *letter) const;
    Peer &peer_at(int peer) { return peers_[static_cast<size_t>(peer)]; }

    std::mutex                          lock_;
    std::shared_ptr<Wire>               wire_;
    const std::vector<int>             *ranks_ = nullptr;
    std::vector<Peer>                   peers_;
    std::list<std::unique_ptr<Errand>>  errands_;           /* in the order they were asked for */
    std::deque<std::unique_ptr<Letter>> unread_, leaving_;
};

} // namespace ringside
#endif
