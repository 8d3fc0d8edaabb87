/* The hash of a trace: of what happened, not of where it is written down. Names of files, line numbers, the
 * lesson's text, how it wants to be told and the engine's text say nothing, so that a class compares hashes although
 * each has its own file and its own comments. It is a sum of parts, one for each chunk of events and one for each
 * record, so that it can be taken while the trace is written, in any order, and of the finished file again. Which chunk
 * of events it is stands in its head (which writer's, the how many-th); records have their ids and may lie anywhere.
 * Nothing here is secret: the sum tells runs apart, it does not guard them.
 *
 * Interface: chunk_sum, sum_digits. */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/reader.h"
#include "trace/internal.h"

enum { WORD = (int)sizeof(uint64_t), EVENT_WORDS = (int)sizeof(struct trace_event) / WORD };

static uint64_t
mixed(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

static uint64_t
with_word(uint64_t sum, uint64_t word)
{
    return (sum ^ word) * 0x9e3779b97f4a7c15u + (sum >> 29);
}

static uint64_t
word_at(const unsigned char *bytes, size_t index)
{
    uint64_t word;
    memcpy(&word, bytes + index * sizeof word, sizeof word);
    return word;
}

static uint64_t
with_bytes(uint64_t sum, const void *bytes, size_t count)
{
    size_t   words = count / WORD;
    uint64_t last  = 0;
    for (size_t i = 0; i < words; i++)
        sum = with_word(sum, word_at(bytes, i));
    memcpy(&last, (const unsigned char *)bytes + words * WORD, count % WORD);
    return with_word(with_word(sum, last), count);
}

/* ---- texts ---- */

static bool
goes_on(char letter)
{
    return isalnum((unsigned char)letter) || (unsigned char)letter >= 0x80 || strchr("_-.", letter) != NULL;
}

/* Where the lesson's name begins that ends at `end`; NULL: it does not stand there. Lua cuts long ones: "...me.lua". */
static const char *
lesson_before(const char *text, const char *end, const char *lesson)
{
    enum { LUA_KEEPS = 56 };
    size_t length = strlen(lesson), room = (size_t)(end - text);
    if (length > 0 && length <= room && memcmp(end - length, lesson, length) == 0)
        return end - length == text || !goes_on(end[-1 - (long)length]) ? end - length : NULL;
    if (length <= LUA_KEEPS || room < LUA_KEEPS + 3 ||
        memcmp(end - LUA_KEEPS, lesson + length - LUA_KEEPS, LUA_KEEPS) != 0)
        return NULL;
    return memcmp(end - LUA_KEEPS - 3, "...", 3) == 0 ? end - LUA_KEEPS - 3 : NULL;
}

/* Where the name of any other file of Lua begins, with its folders. */
static const char *
file_before(const char *text, const char *end)
{
    if (end - text < 4 || memcmp(end - 4, ".lua", 4) != 0)
        return NULL;
    while (end > text && strchr(" \t\n\"'<>()[]", end[-1]) == NULL)
        end--;
    return end;
}

/* The place in a lesson that a text names at `at`: "six-rows.lua:12" at its colon, "(line 12)" at its number, as
 * messages of Lua and of the engine do. `begin` is NULL where there is none. */
struct place { const char *begin, *end; };

static struct place
place_at(const char *text, const char *at, const char *lesson)
{
    struct place place = { 0 };
    size_t       digits = strspn(at + (*at == ':'), "0123456789");
    if (digits == 0)
        return place;
    if (*at == ':') {
        const char *begin = lesson_before(text, at, lesson);
        place.begin = begin != NULL ? begin : file_before(text, at);
        place.end = at + 1 + digits;
    } else if (at - text >= 6 && at[digits] == ')' && memcmp(at - 5, "line ", 5) == 0 && !goes_on(at[-6])) {
        place = (struct place){ .begin = at, .end = at + digits };
    }
    return place;
}

/* What the text says but for the places that it names. */
static uint64_t
with_text(uint64_t sum, const char *text, const char *lesson)
{
    const char *told = text, *at = text;
    while (*(at += strcspn(at, ":0123456789")) != '\0') {
        struct place place = place_at(told, at, lesson);
        if (place.begin != NULL) {
            sum = with_bytes(sum, told, (size_t)(place.begin - told));
            told = at = place.end;
        } else {
            at += *at == ':' ? 1 : strspn(at, "0123456789");
        }
    }
    return with_bytes(sum, told, (size_t)(at - told));
}

/* ---- records ---- */

/* What kind of event it is; not where the engine's function stands and how it reads. */
static uint64_t
with_kind(uint64_t sum, struct reader *record)
{
    sum = with_word(sum, (uint64_t)read_u16(record) << 8 | read_u8(record));
    read_u8(record);
    const char *name = read_text(record);
    read_text(record);
    const char *pytorch = read_text(record), *args = read_text(record);
    sum = with_bytes(sum, name, strlen(name));
    sum = with_bytes(sum, pytorch, strlen(pytorch));
    return with_bytes(sum, args, strlen(args));
}

/* How the run is called and told, not what happened in it. */
static bool
tells_only(const char *key)
{
    return strcmp(key, "lesson") == 0 || option_is_of_story(key);
}

static uint64_t
record_sum(enum record_type type, struct reader record, const char *lesson)
{
    uint64_t    sum = mixed((uint64_t)type << 32);
    const char *key;
    switch (type) {
    case RECORD_SOURCE: return 0;
    case RECORD_KIND: return mixed(with_kind(sum, &record));
    case RECORD_TEXT:
        sum = with_word(sum, read_u32(&record));
        return mixed(with_text(sum, read_text(&record), lesson));
    case RECORD_OPTION:
        key = read_text(&record);
        return tells_only(key) ? 0 : mixed(with_bytes(sum, record.bytes, record.size));
    default: return mixed(with_bytes(sum, record.bytes, record.size));
    }
}

static uint64_t
records_sum(const unsigned char *chunk, const char *lesson)
{
    uint64_t      sum  = 0;
    struct reader left = reader_of(chunk + sizeof(struct chunk_head), TRACE_CHUNK - sizeof(struct chunk_head));
    while (!left.broken) {
        unsigned type = read_u16(&left);
        read_u16(&left);
        size_t               bytes = read_u32(&left);
        const unsigned char *payload = read_bytes(&left, (bytes + WORD - 1) / WORD * WORD);
        if (type == 0 || payload == NULL)
            break;
        sum += record_sum((enum record_type)type, reader_of(payload, bytes), lesson);
    }
    return sum;
}

/* ---- chunks ---- */

static uint64_t
events_sum(const unsigned char *chunk, const struct chunk_head *head)
{
    enum { LINE_WORD = (int)offsetof(struct trace_event, line) / WORD };
    _Static_assert(offsetof(struct trace_event, line) % sizeof(uint64_t) == 4, "the upper half of its word");
    size_t words = TRACE_CHUNK / WORD, first = sizeof *head / WORD;
    while (words > first && word_at(chunk, words - 1) == 0)
        words--;
    uint64_t sum = mixed((uint64_t)head->kind << 32 | head->writer) + mixed((uint64_t)head->sequence << 32 | words);
    for (size_t i = first; i < words; i++)
        sum = with_word(sum, word_at(chunk, i) & ((i - first) % EVENT_WORDS == LINE_WORD ? 0xffffffffu : ~(uint64_t)0));
    return mixed(sum);
}

uint64_t
chunk_sum(const unsigned char *chunk, const char *lesson)
{
    struct chunk_head head;
    memcpy(&head, chunk, sizeof head);
    if (head.magic != CHUNK_MAGIC)
        return 0;
    return head.kind == CHUNK_EVENTS ? events_sum(chunk, &head) : records_sum(chunk, lesson);
}

uint32_t
sum_digits(uint64_t sum)
{
    sum = mixed(sum);
    return (uint32_t)((sum ^ sum >> 24 ^ sum >> 48) & 0xffffff);
}
