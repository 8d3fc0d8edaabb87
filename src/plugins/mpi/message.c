/* Messages of any length, over MPI's sends and receives. Short ones are copied, so that one that nobody takes may
 * be cancelled; of a long one MPI may read until its peer has it, and whoever cancels it waits for that, a while.
 * Order of use: message_send or message_recv; message_test until it is over, or message_drop. */
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "plugins/mpi/mpi.h"

enum { COPIED = 16 << 10, CANCEL_MS = 250, BLOCK = 1 << 30 };

struct message {
    MPI_Request request;
    bool        is_send;
    size_t      room;
    char        copy[];
};

/* ---- lengths: MPI counts in int ---- */

/* One element of a type made for it, or as many bytes. */
static int
type_of(size_t bytes, MPI_Datatype *type, int *count)
{
    *type  = MPI_BYTE;
    *count = (int)bytes;
    if (bytes <= BLOCK)
        return MPI_SUCCESS;
    int          lengths[2] = { (int)(bytes / BLOCK), (int)(bytes % BLOCK) };
    MPI_Aint     at[2]      = { 0, (MPI_Aint)(bytes / BLOCK * BLOCK) };
    MPI_Datatype types[2]   = { MPI_DATATYPE_NULL, MPI_BYTE };
    int          error      = MPI_Type_contiguous(BLOCK, MPI_BYTE, &types[0]);
    *count = 1;
    if (error != MPI_SUCCESS)
        return error;
    error = MPI_Type_create_struct(2, lengths, at, types, type);
    MPI_Type_free(&types[0]);
    return error == MPI_SUCCESS ? MPI_Type_commit(type) : error;
}

int
message_isend(MPI_Comm comm, int peer, int tag, const void *data, size_t bytes, MPI_Request *request)
{
    MPI_Datatype type;
    int          count, error = type_of(bytes, &type, &count);
    if (error == MPI_SUCCESS)
        error = MPI_Isend(data, count, type, peer, tag, comm, request);
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
    return error;
}

int
message_irecv(MPI_Comm comm, int peer, int tag, void *data, size_t bytes, MPI_Request *request)
{
    MPI_Datatype type;
    int          count, error = type_of(bytes, &type, &count);
    if (error == MPI_SUCCESS)
        error = MPI_Irecv(data, count, type, peer, tag, comm, request);
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
    return error;
}

size_t
message_bytes(const MPI_Status *status)
{
    MPI_Count count = 0;
    MPI_Get_elements_x(status, MPI_BYTE, &count);
    return count > 0 ? (size_t)count : 0;
}

/* ---- errors ---- */

void
mpi_why(struct transport_why *why, int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int  length = 0;
    MPI_Error_string(error, text, &length);
    const char *said = strncmp(text, "MPI_ERR", 7) == 0 && strstr(text, ": ") != NULL ? strstr(text, ": ") + 2 : text;
    snprintf(why->text, sizeof why->text, "%s failed: %s", what, said[0] != '\0' ? said : "MPI does not say why");
}

static void
receive_why(struct transport_request *request, const struct message *message, int error, const MPI_Status *status)
{
    size_t came = message_bytes(status);
    int    class = MPI_SUCCESS;
    char   what[60];
    MPI_Error_class(error, &class);
    if (class == MPI_ERR_TRUNCATE && came > message->room) {
        snprintf(request->why.text, sizeof request->why.text, "rank %d sent %zu bytes, and there is room for %zu",
                 status->MPI_SOURCE, came, message->room);
    } else if (class == MPI_ERR_TRUNCATE) {
        snprintf(request->why.text, sizeof request->why.text, "rank %d sent more than the %zu bytes there is room for",
                 status->MPI_SOURCE, message->room);
    } else {
        snprintf(what, sizeof what, "receiving from rank %d", status->MPI_SOURCE);
        mpi_why(&request->why, error, what);
    }
}

/* ---- the door's four ---- */

static struct message *
message_new(struct channel *channel, uint32_t tag, size_t copied, struct transport_request *request)
{
    struct message *message = NULL;
    if (tag > (uint32_t)channel->tag_max)
        snprintf(request->why.text, sizeof request->why.text, "this MPI has tags up to %d, and %u is none",
                 channel->tag_max, tag);
    else if ((message = malloc(sizeof *message + copied)) == NULL)
        snprintf(request->why.text, sizeof request->why.text, "out of memory for a message");
    request->own[0] = message;
    return message;
}

/* The message has begun, or `why` says why not. */
static bool
begun(struct message *message, int error, int peer, struct transport_request *request)
{
    char what[60];
    if (error == MPI_SUCCESS)
        return true;
    snprintf(what, sizeof what, "%s rank %d", message->is_send ? "sending to" : "receiving from", peer);
    mpi_why(&request->why, error, what);
    request->own[0] = NULL;
    free(message);
    return false;
}

bool
message_send(void *data, int peer, uint32_t tag, const void *bytes, size_t count,
             struct transport_request *request)
{
    struct channel *channel = data;
    size_t          copied  = count <= COPIED ? count : 0;
    struct message *message = message_new(channel, tag, copied, request);
    if (message == NULL)
        return false;
    message->is_send = true;
    message->room    = count;
    bytes_copy(message->copy, bytes, copied);
    request->peer  = peer;
    request->bytes = count;
    if (copied > 0)
        bytes = message->copy;
    int error = message_isend(channel->messages, peer, (int)tag, bytes, count, &message->request);
    return begun(message, error, peer, request);
}

bool
message_recv(void *data, int peer, uint32_t tag, void *bytes, size_t room, struct transport_request *request)
{
    struct channel *channel = data;
    struct message *message = message_new(channel, tag, 0, request);
    if (message == NULL)
        return false;
    message->is_send = false;
    message->room    = room;
    request->peer    = peer;
    int from  = peer == TRANSPORT_ANY ? MPI_ANY_SOURCE : peer;
    int error = message_irecv(channel->messages, from, (int)tag, bytes, room, &message->request);
    return begun(message, error, peer, request);
}

enum transport_state
message_test(void *data, struct transport_request *request)
{
    struct message *message = request->own[0];
    MPI_Status      status;
    int             over = 0;
    (void)data;
    if (message == NULL)
        return request->why.text[0] == '\0' ? TRANSPORT_DONE : TRANSPORT_FAILED;
    memset(&status, 0, sizeof status);
    int error = MPI_Test(&message->request, &over, &status);
    if (error == MPI_SUCCESS && !over)
        return TRANSPORT_PENDING;
    if (error != MPI_SUCCESS && message->is_send) {
        char what[60];
        snprintf(what, sizeof what, "sending to rank %d", request->peer);
        mpi_why(&request->why, error, what);
    } else if (error != MPI_SUCCESS) {
        receive_why(request, message, error, &status);
    } else if (!message->is_send) {
        request->peer  = status.MPI_SOURCE;
        request->bytes = message_bytes(&status);
    }
    request->own[0] = NULL;
    free(message);
    return error == MPI_SUCCESS ? TRANSPORT_DONE : TRANSPORT_FAILED;
}

uint64_t
mpi_milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A receive that has begun to fill its memory, and a long send, end when their peer has done its part. */
void
message_cancel(struct channel *channel, MPI_Request *request)
{
    int      over = 0;
    uint64_t end  = mpi_milliseconds() + (atomic_load(&channel->hurried) ? 0 : CANCEL_MS);
    MPI_Cancel(request);
    while (MPI_Test(request, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && !over) {
        if (mpi_milliseconds() >= end) {
            atomic_store(&channel->hurried, true);
            return;
        }
        sched_yield();
    }
}

/* A copy that may still be read stays where it is. */
void
message_drop(void *data, struct transport_request *request)
{
    struct message *message = request->own[0];
    int             over    = 0;
    if (message == NULL)
        return;
    request->own[0] = NULL;
    if (message->is_send && message->room <= COPIED)
        MPI_Test(&message->request, &over, MPI_STATUS_IGNORE);
    else
        message_cancel(data, &message->request);
    if (message->request == MPI_REQUEST_NULL)
        free(message);
}
