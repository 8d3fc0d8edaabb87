/* The Gloo plug-in's table of slots (c10d/transport.h). Nothing that is thrown leaves it. */
#include <cstdio>
#include <gloo/config.h>
#include "plugins/gloo/channel.h"

using namespace ringside;

#define TEXT_OF(x) #x
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

/* Gloo has no launcher. */
static bool
gloo_place(transport_place *, transport_why *why)
{
    why->text[0] = '\0';
    return false;
}

static void *
gloo_open(const transport_options *options, transport_why *why)
{
    try {
        return transport_open(options);
    } catch (...) {
        why_say(why, nullptr, nullptr);
        return nullptr;
    }
}

static void
gloo_close(void *transport)
{
    delete static_cast<Transport *>(transport);
}

static void *
gloo_connect(void *transport, const transport_channel_options *options, transport_why *why)
{
    Quiet quiet(pipe_is_ignored());
    try {
        return channel_connect(static_cast<Transport *>(transport), options);
    } catch (...) {
        why_say(why, nullptr, nullptr);
        return nullptr;
    }
}

static void
gloo_disconnect(void *channel, bool broken)
{
    Channel *c = static_cast<Channel *>(channel);
    Quiet    quiet(c->ignores_pipe);
    try {
        c->mail.close(broken);
    } catch (...) {
    }
    delete c;
}

static bool
gloo_has(transport_operation operation, transport_dtype, transport_reduce)
{
    return collective_is(operation);
}

static bool
gloo_run(void *channel, const transport_call *call, transport_why *why)
{
    Channel *c   = static_cast<Channel *>(channel);
    Quiet    quiet(c->ignores_pipe);
    bool     well = true;
    c->wire->waiter     = call->waiter;
    c->wire->tells_hops = true;
    try {
        collective_run(c, call);
    } catch (...) {
        why_say(why, &c->ranks, c->wire.get());
        well = false;
    }
    c->wire->waiter = nullptr;
    return well;
}

/* What was asked for, in the request's memory. */
static bool
begun(Channel *c, Errand *errand, transport_request *request, int peer)
{
    request->own[0] = errand;
    request->own[1] = nullptr;
    request->peer   = peer;
    if (errand->state != TRANSPORT_FAILED || !errand->is_send)
        return true;
    std::snprintf(request->why.text, sizeof request->why.text, "%s", errand->why.c_str());
    c->mail.forget(errand);
    return false;
}

static bool
gloo_send(void *channel, int peer, uint32_t tag, const void *data, size_t bytes, transport_request *request)
{
    Channel *c = static_cast<Channel *>(channel);
    Quiet    quiet(c->ignores_pipe);
    try {
        return begun(c, c->mail.send(peer, tag, data, bytes), request, peer);
    } catch (...) {
        why_say(&request->why, &c->ranks, nullptr);
        return false;
    }
}

static bool
gloo_recv(void *channel, int peer, uint32_t tag, void *data, size_t bytes, transport_request *request)
{
    Channel *c = static_cast<Channel *>(channel);
    Quiet    quiet(c->ignores_pipe);
    try {
        return begun(c, c->mail.recv(peer, tag, data, bytes), request, peer);
    } catch (...) {
        why_say(&request->why, &c->ranks, nullptr);
        return false;
    }
}

/* A request that is over may be asked again. */
static transport_state
gloo_test(void *channel, transport_request *request)
{
    Channel *c      = static_cast<Channel *>(channel);
    Quiet    quiet(c->ignores_pipe);
    Errand  *errand = static_cast<Errand *>(request->own[0]);
    if (errand == nullptr)
        return request->why.text[0] == '\0' ? TRANSPORT_DONE : TRANSPORT_FAILED;
    try {
        transport_state state = c->mail.test(errand);
        if (state == TRANSPORT_PENDING)
            return state;
        request->peer  = errand->peer;
        request->bytes = errand->bytes;
        std::snprintf(request->why.text, sizeof request->why.text, "%s", errand->why.c_str());
        c->mail.forget(errand);
        request->own[0] = nullptr;
        return state;
    } catch (...) {
        why_say(&request->why, &c->ranks, nullptr);
        c->mail.forget(errand);
        request->own[0] = nullptr;
        return TRANSPORT_FAILED;
    }
}

static void
gloo_cancel(void *channel, transport_request *request)
{
    Channel *c = static_cast<Channel *>(channel);
    if (request->own[0] != nullptr)
        c->mail.forget(static_cast<Errand *>(request->own[0]));
    request->own[0] = nullptr;
}

extern "C" __attribute__((visibility("default"))) const transport ringside_transport_1;
const transport ringside_transport_1 = {
    TRANSPORT_ABI, "gloo", "Gloo " VERSION_OF(GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH),
    gloo_place, nullptr, gloo_open, gloo_close, gloo_connect, gloo_disconnect, gloo_has, gloo_run,
    gloo_send, gloo_recv, gloo_test, gloo_cancel,
};
