/* From an address to a store. torch/distributed/rendezvous.py. */
#include "c10d/rendezvous.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/store.h"
#include "c10d/url.h"

/* ---- rank and size ---- */

static bool
missing(struct task *me, const struct url *url, const char *what)
{
    return failed(me, E_VALUE, "Error initializing torch.distributed using %s:// rendezvous: %s missing", url->scheme,
                  what);
}

static bool
unset(struct task *me, const char *name)
{
    return failed(me, E_VALUE, "Error initializing torch.distributed using env:// rendezvous: environment variable %s "
                  "expected, but not set: 'ringside launch --nproc 2 FILE' sets it", name);
}

static bool
parse_number(struct task *me, const char *name, const char *text, int64_t *number)
{
    return url_number(text, number) || failed(me, E_VALUE, "%s is '%.60s': it must be a whole number", name, text);
}

/* Given, in the address, or in the environment. */
static bool
find_number(struct task *me, const struct url *url, const char *name, int64_t given, int64_t *number)
{
    char text[64];
    bool there = url_option(url, name, text, sizeof text);
    if (there && given >= 0)
        return failed(me, E_ASSERTION, "%s is given twice, in the address and beside it", name);
    *number = given;
    return !there || parse_number(me, name, text, number);
}

static bool
find_rank(struct task *me, const struct url *url, const struct rendezvous_options *options,
          const struct rendezvous_environment *environment, struct rendezvous *met)
{
    bool env = strcmp(url->scheme, "env") == 0;
    if (!find_number(me, url, "rank", options->rank, &met->rank) ||
        !find_number(me, url, "world_size", options->world_size, &met->world_size))
        return false;
    if (met->rank < 0 && !env)
        return missing(me, url, "rank parameter");
    if (met->world_size < 0 && !env)
        return missing(me, url, "world size parameter");
    if (met->rank < 0 && (environment->rank == NULL ? !unset(me, "RANK")
                                                    : !parse_number(me, "RANK", environment->rank, &met->rank)))
        return false;
    if (met->world_size < 0 &&
        (environment->world_size == NULL ? !unset(me, "WORLD_SIZE")
                                         : !parse_number(me, "WORLD_SIZE", environment->world_size, &met->world_size)))
        return false;
    if (met->world_size < 1 || met->rank < 0 || met->rank >= met->world_size)
        return failed(me, E_VALUE, "rank %lld of %lld: ranks count from 0 to one less than the world's size",
                      (long long)met->rank, (long long)met->world_size);
    return true;
}

/* ---- the schemes ---- */

static struct store *
meet_at(struct task *me, const char *host, int64_t port, const struct rendezvous_options *options,
        const struct rendezvous *met)
{
    struct store_tcp_options tcp = { .host = host, .port = port, .world_size = met->world_size,
                                     .is_master = met->rank == 0, .wait_for_workers = true, .multi_tenant = true,
                                     .trusted = options->trusted, .timeout_ps = options->timeout_ps };
    return store_tcp_new(me, &tcp);
}

static struct store *
meet_env(struct task *me, const struct rendezvous_options *options, const struct rendezvous_environment *environment,
         const struct rendezvous *met)
{
    int64_t port = -1;
    if (environment->master_addr == NULL)
        return unset(me, "MASTER_ADDR"), NULL;
    if (environment->master_port == NULL)
        return unset(me, "MASTER_PORT"), NULL;
    if (!parse_number(me, "MASTER_PORT", environment->master_port, &port))
        return NULL;
    return meet_at(me, environment->master_addr, port, options, met);
}

static struct store *
meet_file(struct task *me, const struct url *url, const struct rendezvous_options *options,
          const struct rendezvous *met)
{
    struct store_file_options file = { .path = url->path, .world_size = met->world_size, .trusted = options->trusted };
    struct store             *store = store_file_new(me, &file);
    if (store != NULL && options->timeout_ps != STORE_TIMEOUT)
        store_set_timeout(store, options->timeout_ps);
    return store;
}

static bool
has_what_it_needs(struct task *me, const struct url *url)
{
    if (strcmp(url->scheme, "env") == 0)
        return true;
    if (strcmp(url->scheme, "tcp") == 0)
        return (url->host[0] != '\0' || missing(me, url, "host name")) &&
               (url->port >= 0 || missing(me, url, "port number"));
    if (strcmp(url->scheme, "file") != 0)
        return failed(me, E_RUNTIME, "No rendezvous handler for %s://: there are env://, tcp:// and file://",
                      url->scheme);
    if (url->host[0] != '\0')
        return failed(me, E_VALUE, "file://%.200s...: a path has three slashes before it, as in file:///tmp/meeting",
                      url->host);
    return url->path[0] != '\0' || missing(me, url, "path");
}

static struct rendezvous_environment
environment_of(const struct rendezvous_options *options)
{
    if (options->environment != NULL)
        return *options->environment;
    return (struct rendezvous_environment){ getenv("RANK"), getenv("WORLD_SIZE"), getenv("MASTER_ADDR"),
                                            getenv("MASTER_PORT") };
}

static bool
find_place(struct task *me, const char *address, const struct rendezvous_options *options, struct url *url,
           struct rendezvous *met)
{
    const struct rendezvous_environment environment = environment_of(options);
    char why[300];
    *met = (struct rendezvous){ .rank = -1, .world_size = -1 };
    if (task_failed(me))
        return false;
    if (!url_parse(address, url, why, sizeof why))
        return failed(me, E_VALUE, "%s", why);
    return has_what_it_needs(me, url) && find_rank(me, url, options, &environment, met);
}

bool
rendezvous_place(struct task *me, const char *address, const struct rendezvous_options *options,
                 struct rendezvous *met)
{
    struct url url;
    return find_place(me, address, options, &url, met);
}

bool
rendezvous(struct task *me, const char *address, const struct rendezvous_options *options, struct rendezvous *met)
{
    const struct rendezvous_environment environment = environment_of(options);
    struct url url;
    if (!find_place(me, address, options, &url, met))
        return false;
    if (strcmp(url.scheme, "env") == 0)
        met->store = meet_env(me, options, &environment, met);
    else if (strcmp(url.scheme, "tcp") == 0)
        met->store = meet_at(me, url.host, url.port, options, met);
    else
        met->store = meet_file(me, &url, options, met);
    return met->store != NULL;
}
