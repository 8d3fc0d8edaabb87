/* Messages of a TCP store as bytes. What comes from outside is checked here, before anybody believes it. */
#include "c10d/store_wire.h"
#include <stdlib.h>
#include <string.h>

enum { REQUEST_HEAD = 20, TEXT_MORE = WIRE_HEAD + 1 };

void
wire_hello(char hello[WIRE_HELLO])
{
    const uint16_t order = 0x0102;
    memcpy(hello, "RSTOR1", 6);
    memcpy(hello + 6, &order, sizeof order);
}

void
wire_no_room(char hello[WIRE_HELLO])
{
    memcpy(hello, "RSTOFULL", WIRE_HELLO);
}

static void
add_number(struct str *out, uint64_t number, size_t bytes)
{
    uint32_t narrow = (uint32_t)number;
    str_add_bytes(out, bytes == sizeof narrow ? (const void *)&narrow : (const void *)&number, bytes);
}

static void
add_text(struct str *out, const char *prefix, const void *bytes, size_t count)
{
    add_number(out, strlen(prefix) + count, WIRE_HEAD);
    str_add(out, prefix);
    str_add_bytes(out, count > 0 ? bytes : "", count);
    str_add_bytes(out, "", 1);
}

void
wire_add_request(struct str *out, const struct store_request *request, const char *prefix)
{
    char   kind[4] = { (char)request->op, (char)request->what, 0, 0 };
    size_t length  = REQUEST_HEAD;
    for (int i = 0; i < request->key_count; i++)
        length += TEXT_MORE + strlen(prefix) + strlen(request->keys[i]);
    for (int i = 0; i < request->value_count; i++)
        length += TEXT_MORE + request->values[i].count;
    add_number(out, length, WIRE_HEAD);
    str_add_bytes(out, kind, sizeof kind);
    add_number(out, (uint64_t)request->key_count, WIRE_HEAD);
    add_number(out, (uint64_t)request->value_count, WIRE_HEAD);
    add_number(out, (uint64_t)request->number, sizeof request->number);
    for (int i = 0; i < request->key_count; i++)
        add_text(out, prefix, request->keys[i], strlen(request->keys[i]));
    for (int i = 0; i < request->value_count; i++)
        add_text(out, "", request->values[i].bytes, request->values[i].count);
}

/* ---- reading ---- */

struct wire_reader { const char *at; size_t left; };

static bool
read_text(struct wire_reader *reader, struct store_text *text)
{
    uint32_t length = 0;
    if (reader->left < TEXT_MORE)
        return false;
    memcpy(&length, reader->at, WIRE_HEAD);
    if (reader->left - TEXT_MORE < length || reader->at[WIRE_HEAD + length] != '\0')
        return false;
    *text = (struct store_text){ reader->at + WIRE_HEAD, length };
    reader->at += TEXT_MORE + length;
    reader->left -= TEXT_MORE + length;
    return true;
}

/* How many keys and values each operation has; SET and CHECK any number, as many values as keys or none. */
static bool
counts_fit(const struct store_request *request)
{
    int keys = request->key_count, values = request->value_count;
    switch (request->op) {
    case STORE_SET: return values == keys;
    case STORE_GET:
    case STORE_CHECK: return values == 0;
    case STORE_ADD:
    case STORE_DELETE:
    case STORE_POP:
    case STORE_LENGTH: return keys == 1 && values == 0;
    case STORE_APPEND:
    case STORE_PUSH:
    case STORE_POST: return keys == 1 && values == 1;
    case STORE_COMPARE_SET: return keys == 1 && values == 2;
    case STORE_COUNT:
    case STORE_CLOCK:
    case STORE_LIST: return keys == 0 && values == 0;
    case STORE_OPS: break;
    }
    return false;
}

static bool
read_lists(struct wire_reader *reader, const char **keys, int key_count, struct store_text *values, int value_count)
{
    struct store_text key;
    for (int i = 0; i < key_count; i++) {
        if (!read_text(reader, &key) || key.count > STORE_KEY_BYTES + 1 || strlen(key.bytes) != key.count)
            return false;
        keys[i] = key.bytes;
    }
    for (int i = 0; i < value_count; i++)
        if (!read_text(reader, &values[i]))
            return false;
    return reader->left == 0;
}

enum store_status
wire_read_request(const char *bytes, size_t count, struct store_request *request)
{
    uint32_t keys = 0, values = 0;
    *request = (struct store_request){ 0 };
    if (count < REQUEST_HEAD || (unsigned char)bytes[0] >= STORE_OPS || (unsigned char)bytes[1] > STORE_ANY)
        return STORE_UNSUPPORTED;
    request->op   = (enum store_op)bytes[0];
    request->what = (enum store_what)bytes[1];
    memcpy(&keys, bytes + 4, sizeof keys);
    memcpy(&values, bytes + 8, sizeof values);
    memcpy(&request->number, bytes + 12, sizeof request->number);
    size_t rest = count - REQUEST_HEAD;
    if (keys > STORE_KEYS || values > STORE_KEYS || ((size_t)keys + values) * TEXT_MORE > rest)
        return STORE_UNSUPPORTED;
    request->key_count   = (int)keys;
    request->value_count = (int)values;
    if (!counts_fit(request))
        return STORE_UNSUPPORTED;
    const char       **key_list   = calloc((size_t)keys + 1, sizeof *key_list);
    struct store_text *value_list = calloc((size_t)values + 1, sizeof *value_list);
    request->keys                 = key_list;
    request->values               = value_list;
    struct wire_reader reader     = { bytes + REQUEST_HEAD, rest };
    bool              room   = key_list != NULL && value_list != NULL;
    if (room && read_lists(&reader, key_list, (int)keys, value_list, (int)values))
        return STORE_DONE;
    wire_free_lists(request);
    return room ? STORE_UNSUPPORTED : STORE_NO_MEMORY;
}

void
wire_free_lists(struct store_request *request)
{
    free((void *)request->keys);
    free((void *)request->values);
    request->keys   = NULL;
    request->values = NULL;
}

/* ---- replies ---- */

void
wire_add_reply(struct str *out, const struct store_reply *reply, const char *bytes, size_t count)
{
    char status[4] = { (char)reply->status, 0, 0, 0 };
    add_number(out, WIRE_REPLY_HEAD + count, WIRE_HEAD);
    str_add_bytes(out, status, sizeof status);
    add_number(out, (uint64_t)reply->number, sizeof reply->number);
    str_add_bytes(out, bytes, count);
}

bool
wire_read_reply(const char *bytes, size_t count, struct store_reply *reply)
{
    if (count < WIRE_REPLY_HEAD || (unsigned char)bytes[0] >= STORE_STATUSES)
        return false;
    reply->status = (enum store_status)bytes[0];
    memcpy(&reply->number, bytes + 4, sizeof reply->number);
    return true;
}

bool
wire_are_values(const char *bytes, size_t count, int64_t values)
{
    struct wire_reader reader = { bytes, count };
    struct store_text  text;
    for (int64_t i = 0; i < values; i++)
        if (!read_text(&reader, &text))
            return false;
    return reader.left == 0;
}

void
wire_no_memory(char reply[WIRE_NO_MEMORY])
{
    const uint32_t length = WIRE_REPLY_HEAD;
    memset(reply, 0, WIRE_NO_MEMORY);
    memcpy(reply, &length, WIRE_HEAD);
    reply[WIRE_HEAD] = STORE_NO_MEMORY;
}
