/* From what Gloo throws to one sentence for people, and signals. */
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include "plugins/gloo/channel.h"

namespace ringside {

static const char *
what_became(const char *text)
{
    if (std::strstr(text, "refused") != nullptr)
        return "was refused";
    if (std::strstr(text, "reset by peer") != nullptr || std::strstr(text, "Broken pipe") != nullptr)
        return "was reset";
    if (std::strstr(text, "closed") != nullptr)
        return "was closed";
    return "broke";
}

/* Gloo's own text without its file and line, which stand in brackets before it. */
static const char *
without_place(const char *text)
{
    const char *end = text[0] == '[' ? std::strstr(text, "] ") : nullptr;
    return end != nullptr ? end + 2 : text;
}

static void
say_text(transport_why *why, const std::vector<int> *ranks, const Wire *wire, const char *text)
{
    int peer = wire != nullptr ? wire->first_closed() : -1;
    if (peer >= 0 && ranks != nullptr && std::strstr(text, "preamble.length") != nullptr)
        std::snprintf(why->text, sizeof why->text, "rank %d sent more than this rank was to receive: the sizes of their calls differ",
                      (*ranks)[static_cast<size_t>(peer)]);
    else if (peer >= 0 && ranks != nullptr)
        std::snprintf(why->text, sizeof why->text, "the connection to rank %d %s", (*ranks)[static_cast<size_t>(peer)],
                      what_became(text));
    else
        std::snprintf(why->text, sizeof why->text, "%.*s", static_cast<int>(std::strcspn(without_place(text), "\n")),
                      without_place(text));
}

void
why_say(transport_why *why, const std::vector<int> *ranks, const Wire *wire) noexcept
{
    why->text[0] = '\0';
    try {
        throw;
    } catch (const GaveUp &) {
    } catch (const TooLate &) {
        std::snprintf(why->text, sizeof why->text, "not all ranks came in time");
    } catch (const std::bad_alloc &) {
        std::snprintf(why->text, sizeof why->text, "there is no memory for it");
    } catch (const std::exception &e) {
        say_text(why, ranks, wire, e.what());
    } catch (...) {
        std::snprintf(why->text, sizeof why->text, "it failed for a reason that Gloo did not tell");
    }
}

bool
pipe_is_ignored()
{
    struct sigaction now;
    return sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

Quiet::Quiet(bool is_ignored)
{
    if (is_ignored)
        return;
    sigset_t pipe, was;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &was);
    was_held_ = sigismember(&was, SIGPIPE) == 1;
}

/* One that came meanwhile was meant for this thread: taken before the mask opens. */
Quiet::~Quiet()
{
    if (was_held_)
        return;
    sigset_t pipe, pending;
    timespec now = { 0, 0 };
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    if (sigismember(&pending, SIGPIPE) == 1)
        sigtimedwait(&pipe, nullptr, &now);
    pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
}

} // namespace ringside
