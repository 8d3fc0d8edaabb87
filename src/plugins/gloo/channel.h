/* One group of ranks over Gloo: its connections, its collectives, its messages.
 *
 * Interface: plugin.cc fills the table of slots with these; each catches all that is thrown and says it in a sentence. */
#ifndef PLUGINS_GLOO_CHANNEL_H
#define PLUGINS_GLOO_CHANNEL_H
#include <memory>
#include <vector>
#include "plugins/gloo/messages.h"
#include "plugins/gloo/wire.h"

namespace ringside {

/* What the transport has for all its channels: one listening thread. */
struct Transport {
    std::shared_ptr<tcp::Device> device;
};

/* Gloo's algorithms take their buffers from one of these. */
class Group : public gloo::Context {
public:
    Group(int rank, int size, std::shared_ptr<tcp::Device> device, std::shared_ptr<Wire> wire);
};

struct Channel {
    std::vector<int>       ranks;          /* of the job */
    int                    rank = 0, size = 0;
    bool                   ignores_pipe = false;
    std::shared_ptr<Wire>  wire;
    std::shared_ptr<Group> group;
    std::vector<char>      spare;          /* where parts lie in a row that do not with the caller */
    Mail                   mail;           /* freed first: its buffers lie on the wire */
};

/* connect.cc */
Transport *transport_open(const transport_options *options);
Channel   *channel_connect(Transport *t, const transport_channel_options *options);

/* collectives.cc */
bool collective_is(transport_operation operation);
void collective_run(Channel *c, const transport_call *call);

/* why.cc: for a catch (...) clause; false with an empty sentence where the waiter gave up. */
void why_say(transport_why *why, const std::vector<int> *ranks, const Wire *wire) noexcept;

/* SIGPIPE, which a write to a connection that is gone raises, is held while this thread is inside Gloo: where the program
 * does not ignore it, which it is asked once for each channel. */
bool pipe_is_ignored();
class Quiet {
public:
    explicit Quiet(bool is_ignored);
    ~Quiet();
    Quiet(const Quiet &) = delete;
    Quiet &operator=(const Quiet &) = delete;

private:
    bool was_held_ = true;
};

} // namespace ringside
#endif
