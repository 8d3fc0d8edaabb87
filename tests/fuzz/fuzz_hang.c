/* Dumps of the Flight Recorder, as `ringside hang` reads them: whatever is in the files, they are told or refused in
 * one line; what was read can be written and read again, and the lesson made of it is Lua. An input is up to four
 * files, each behind its length (u32). */
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "flight/dump.h"
#include "flight/lesson.h"
#include "fuzz.h"
#include "tokens.h"

enum { FILES = 4, LENGTH = 4 };

struct files { const uint8_t *at[FILES]; size_t size[FILES], count; };

/* A length that is too long means the rest. */
static struct files
take_apart(const uint8_t *data, size_t size)
{
    struct files files = { .count = 0 };
    while (size > LENGTH && files.count < FILES) {
        uint32_t length;
        memcpy(&length, data, LENGTH);
        size_t rest = size - LENGTH, taken = length > rest || files.count == FILES - 1 ? rest : length;
        files.at[files.count]     = data + LENGTH;
        files.size[files.count++] = taken;
        data += LENGTH + taken;
        size = rest - taken;
    }
    return files;
}

/* ---- what must hold ---- */

static bool
read_all(struct dumps *dumps, const struct files *files)
{
    bool good = files->count > 0;
    for (size_t i = 0; good && i < files->count; i++) {
        char name[24];
        snprintf(name, sizeof name, "trace_%zu", i);
        good = dump_read(dumps, name, files->at[i], files->size[i], -1);
    }
    good = good && dump_settle(dumps);
    fuzz_assert(good || files->count == 0 || (dumps->why[0] != '\0' && strchr(dumps->why, '\n') == NULL),
                "a refusal is one line");
    return good;
}

/* What is written of a flight is a dump again, with as many calls. */
static void
write_again(const struct flight *flight, struct dumps *again)
{
    for (int rank = 0; rank < flight->rank_count; rank++) {
        struct str text = { 0 };
        size_t     had  = flight->ranks[rank].count;
        if (flight->ranks[rank].now == FLIGHT_ABSENT || (had == 0 && rank > FILES))
            continue;
        fuzz_assert(flight_write_json(flight, rank, &text), "there is memory for the dump");
        bool good = dump_read(again, "again", text.text, text.len, rank);
        if (!good)
            fprintf(stderr, "%s\n", again->why);
        fuzz_assert(good, "what was written is read");
        fuzz_assert(again->flight->ranks[rank].count == had, "with all its calls");
        str_free(&text);
    }
    if (again->source_count > 0)
        fuzz_assert(dump_settle(again), "and settled");
}

static void
compile(const char *text, size_t size)
{
    lua_State *L = luaL_newstate();
    fuzz_assert(L != NULL, "there is memory for Lua");
    int status = luaL_loadbufferx(L, text, size, "lesson", "t");
    if (status != LUA_OK)
        fprintf(stderr, "%s\n%s", lua_tostring(L, -1), text);
    fuzz_assert(status == LUA_OK, "a lesson is Lua");
    lua_close(L);
}

static void
tell(const struct flight *flight)
{
    struct hang hang;
    struct str  report = { 0 }, lesson = { 0 };
    flight_diagnose(flight, &hang);
    hang_print(flight, &hang, 80, &report);
    fuzz_assert(str_ok(&report) && report.len > 0, "something is told");
    if (flight_lesson(flight, &hang, &lesson))
        compile(lesson.text, lesson.len);
    fuzz_assert(str_ok(&lesson), "there is memory for the lesson");
    str_free(&report);
    str_free(&lesson);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct flight flight = { 0 }, flight_again = { 0 };
    struct dumps  dumps  = { .flight = &flight }, again = { .flight = &flight_again };
    struct files  files  = take_apart(data, size);
    if (read_all(&dumps, &files)) {
        tell(&flight);
        write_again(&flight, &again);
        if (again.source_count > 0)
            tell(&flight_again);
    }
    dumps_free(&dumps);
    dumps_free(&again);
    flight_free(&flight);
    flight_free(&flight_again);
    return 0;
}

/* ---- changes ---- */

static const char *const words[] = {
    "\"entries\"", "\"version\"", "\"pg_config\"", "\"pg_status\"", "\"rank\"", "\"now\"", "\"why\"",
    "\"record_id\"", "\"pg_id\"", "\"process_group\"", "\"collective_seq_id\"", "\"p2p_seq_id\"", "\"seq_id\"",
    "\"op_id\"", "\"profiling_name\"", "\"state\"", "\"retired\"", "\"is_p2p\"", "\"input_sizes\"",
    "\"output_sizes\"", "\"input_dtypes\"", "\"output_dtypes\"", "\"frames\"", "\"filename\"", "\"line\"",
    "\"name\"", "\"desc\"", "\"ranks\"", "\"[0, 1]\"", "\"0\"", "\"1\"", "\"default_pg\"", "\"nccl:all_reduce\"",
    "\"gloo:broadcast\"", "\"nccl:send 0->1\"", "\"gloo:recv 1<-?\"", "\"nccl:coalesced\"", "\"nccl:barrier\"",
    "\"all_to_all\"", "\"scatter\"", "\"scheduled\"", "\"started\"", "\"completed\"", "\"Float\"", "\"Long\"",
    "\"waiting\"", "\"group\"", "\"peer\"", "\"tag\"", "\"root\"", "\"reduce_op\"", "\"--[[\"", "\"\\n\"",
    "\"\\u001b\"", "{", "}", "[", "]", ":", ",", "[]", "[[4]]", "[[2,3]]", "null", "true", "false", "0", "1", "-1",
    "2", "9223372036854775807", "1e400",
};
static const struct token_list list = { words, countof(words) };

/* Opcodes with what belongs to them: whole ones that fit somewhere. */
static const struct { const char *bytes; size_t size; } snippets[] = {
    { "]", 1 }, { "}", 1 }, { "(", 1 }, { ")", 1 }, { "N", 1 }, { "\x88", 1 }, { "\x89", 1 }, { "a", 1 }, { "s", 1 },
    { "e", 1 }, { "u", 1 }, { "t", 1 }, { "l", 1 }, { "d", 1 }, { "0", 1 }, { "1", 1 }, { "2", 1 }, { ".", 1 },
    { "\x85", 1 }, { "\x86", 1 }, { "\x87", 1 }, { "\x94", 1 }, { "K\1", 2 }, { "q\0", 2 }, { "h\0", 2 }, { "h\1", 2 },
    { "M\1\0", 3 }, { "J\xff\xff\xff\xff", 5 }, { "r\1\0\0\0", 5 }, { "j\1\0\0\0", 5 }, { "\x8a\1\xff", 3 },
    { "G\x7f\xf8\0\0\0\0\0\0", 9 }, { "X\7\0\0\0entries", 12 }, { "X\1\0\0\0" "0", 6 }, { "X\5\0\0\0state", 10 },
    { "\x8c\5ranks", 7 }, { "X\6\0\0\0[0, 1]", 11 }, { "I01\n", 4 }, { "L5L\n", 4 }, { "F1.5\n", 5 }, { "S'a'\n", 5 },
    { "Vx\\u0041\n", 9 }, { "cos\nsystem\n", 11 }, { "R", 1 }, { "b", 1 }, { "\x93", 1 }, { "\x8b\1\0\0\0\5", 6 },
};

/* How long an opcode is with its argument; 1 if nobody knows. */
static size_t
opcode_size(const uint8_t *at, size_t left)
{
    uint32_t length = 0;
    memcpy(&length, left > LENGTH ? at + 1 : at, left > LENGTH ? LENGTH : 1);
    const uint8_t *line = memchr(at, '\n', left);
    size_t         size = 1;
    if (strchr("IFLSVpg", at[0]) != NULL && at[0] != '\0')
        size = line != NULL ? (size_t)(line - at) + 1 : left;
    else if (at[0] == 0x80 || strchr("Kqh", at[0]) != NULL)
        size = 2;
    else if (at[0] == 'M' || at[0] == 'J' || at[0] == 'r' || at[0] == 'j')
        size = at[0] == 'M' ? 3 : 5;
    else if (at[0] == 'G' || at[0] == 0x95)
        size = 9;
    else if (at[0] == 0x8a || at[0] == 0x8c || at[0] == 'U' || at[0] == 'C')
        size = left > 1 ? 2 + (size_t)at[1] : 1;
    else if (at[0] == 'X' || at[0] == 'T' || at[0] == 'B')
        size = 5 + (size_t)length;
    return size < left ? size : left;
}

/* Where an opcode begins, by luck; behind the last one: `size`. */
static size_t
some_opcode(const uint8_t *data, size_t size, uint64_t *random)
{
    size_t at = 0, passed = (size_t)dice(random, 64);
    if (dice(random, 4) == 0)
        passed = (size_t)dice(random, size + 1);
    for (size_t i = 0; i < passed && at < size; i++)
        at += opcode_size(data + at, size - at);
    return at;
}

static size_t
put_bytes(uint8_t *data, size_t size, size_t max, size_t at, const void *bytes, size_t count)
{
    uint8_t held[256];
    if (count > sizeof held || size + count > max)
        return size;
    memcpy(held, bytes, count);
    memmove(data + at + count, data + at, size - at);
    memcpy(data + at, held, count);
    return size + count;
}

static size_t
change_pickle(uint8_t *data, size_t size, size_t max, uint64_t *random)
{
    size_t at = some_opcode(data, size, random), length = at < size ? opcode_size(data + at, size - at) : 0;
    size_t snippet = (size_t)dice(random, countof(snippets)), other = some_opcode(data, size, random);
    switch (dice(random, 6)) {
    case 0: /* gone */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 1: return put_bytes(data, size, max, at, data + at, length);
    case 2: /* elsewhere, too */
        return put_bytes(data, size, max, other, data + at, length);
    case 3: /* another number or letter in it */
        if (length > 1)
            data[at + 1 + dice(random, length - 1)] ^= (uint8_t)(1 << dice(random, 8));
        return size;
    default: return put_bytes(data, size, max, at, snippets[snippet].bytes, snippets[snippet].size);
    }
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    uint64_t     random = seed;
    struct files files  = take_apart(data, size);
    if (files.count == 0 || dice(&random, 32) == 0)
        return LLVMFuzzerMutate(data, size, max);
    size_t   which  = (size_t)dice(&random, files.count), front = (size_t)(files.at[which] - data);
    size_t   behind = size - front - files.size[which], room = max > front + behind ? max - front - behind : 0;
    uint8_t *rest = malloc(behind + 1), *file = malloc(room + files.size[which] + 1);
    fuzz_assert(rest != NULL && file != NULL, "there is memory for a change");
    size_t length = files.size[which];
    memcpy(rest, data + front + length, behind);
    memcpy(file, data + front, length);
    if (length <= room && length > 0)
        length = file[0] == '{' || file[0] == '[' ? tokens_change(&list, file, length, room, &random)
                                                  : change_pickle(file, length, room, &random);
    uint32_t told = (uint32_t)length;
    memcpy(data + front - LENGTH, &told, LENGTH);
    memcpy(data + front, file, length);
    memcpy(data + front + length, rest, behind);
    free(rest);
    free(file);
    return front + length + behind;
}
