/* Python's pickle, as far as plain data goes: a machine with a stack, marks and a memo that runs nothing. What names a
 * class or a function (GLOBAL, REDUCE, BUILD ...) is refused by its name, so that a file that came from anywhere can be
 * looked at. A container that lies in another one is closed: so no value contains itself, and depth has a bound.
 *
 * Interface: dump_unpickle. In Python: pickletools.py has the language, pickle.py the machine. */
#include "flight/dump_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/reader.h"
#include "base/vec.h"
#include "base/visible.h"

struct item {
    json_t *value;
    int     height;             /* of containers in it, itself counted */
    bool    closed;             /* it lies in another one */
};

struct machine {
    struct reader in;
    struct arena  arena;        /* the items */
    struct item **stack;
    size_t        depth, room;
    size_t       *marks, mark_count, mark_room;
    struct map    memo;         /* number -> item */
    size_t        made;
    struct item **all;          /* each owns its value until the end */
    size_t        all_room;
    bool          stopped;
    char         *why;
    size_t        why_room;
};

static bool
refuse(struct machine *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (m->why[0] == '\0')
        vsnprintf(m->why, m->why_room, format, args);
    va_end(args);
    return false;
}

static bool
cut_short(struct machine *m)
{
    return refuse(m, "is cut short, or no dump: nothing follows byte %zu of the pickle", m->in.size);
}

/* ---- the stack ---- */

static bool
push(struct machine *m, struct item *item)
{
    if (!vec_room(&m->stack, &m->room, m->depth + 1, sizeof *m->stack))
        return refuse(m, "there is no memory for it");
    m->stack[m->depth++] = item;
    return true;
}

/* A value of its own, which is the machine's from here on. */
static bool
push_value(struct machine *m, json_t *value, int height)
{
    struct item *item = value != NULL ? arena_take(&m->arena, sizeof *item) : NULL;
    if (item == NULL || m->made >= DUMP_VALUES || !vec_room(&m->all, &m->all_room, m->made + 1, sizeof *m->all)) {
        json_decref(value);
        return m->made >= DUMP_VALUES ? refuse(m, "holds more than %d values", DUMP_VALUES)
                                      : refuse(m, "there is no memory for it");
    }
    *item             = (struct item){ .value = value, .height = height };
    m->all[m->made++] = item;
    return push(m, item);
}

static bool
push_text(struct machine *m, const void *bytes, size_t count)
{
    return bytes != NULL ? push_value(m, json_stringn_nocheck(bytes, count), 0) : cut_short(m);
}

/* How far down the stack may be taken from: the last mark stays. */
static size_t
bottom(const struct machine *m)
{
    return m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0;
}

static struct item *
pop(struct machine *m)
{
    if (m->depth <= bottom(m)) {
        refuse(m, "is no pickle: at byte %zu its stack is empty", m->in.at);
        return NULL;
    }
    return m->stack[--m->depth];
}

static struct item *
top(struct machine *m)
{
    struct item *item = pop(m);
    m->depth += item != NULL;
    return item;
}

/* The values above the last mark, which is gone: their number, and where the first is. */
static bool
pop_mark(struct machine *m, size_t *from, size_t *count)
{
    if (m->mark_count == 0)
        return refuse(m, "is no pickle: at byte %zu it has no mark", m->in.at);
    *from    = m->marks[--m->mark_count];
    *count   = m->depth - *from;
    m->depth = *from;
    return true;
}

/* ---- containers ---- */

static bool
put_in(struct machine *m, struct item *into, struct item *item)
{
    if (into->closed || into == item)
        return refuse(m, "is no dump: at byte %zu a value may come to contain itself", m->in.at);
    if (item->height + 1 > into->height)
        into->height = item->height + 1;
    if (into->height > DUMP_DEPTH)
        return refuse(m, "is no dump: its values lie more than %d deep", DUMP_DEPTH);
    item->closed = true;
    return true;
}

static bool
append(struct machine *m, struct item *list, struct item *item)
{
    if (!json_is_array(list->value))
        return refuse(m, "is no pickle: at byte %zu it appends to what is no list", m->in.at);
    if (!put_in(m, list, item))
        return false;
    return json_array_append(list->value, item->value) == 0 || refuse(m, "there is no memory for it");
}

static bool
set(struct machine *m, struct item *dict, struct item *key, struct item *item)
{
    char number[24] = "";
    if (!json_is_object(dict->value))
        return refuse(m, "is no pickle: at byte %zu it sets a key of what is no dict", m->in.at);
    if (json_is_integer(key->value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(key->value));
    else if (!json_is_string(key->value))
        return refuse(m, "is no dump: at byte %zu a dict's key is neither text nor number", m->in.at);
    if (!put_in(m, dict, item))
        return false;
    const char *name = number[0] != '\0' ? number : json_string_value(key->value);
    return json_object_set_nocheck(dict->value, name, item->value) == 0 || refuse(m, "there is no memory for it");
}

static bool
append_all(struct machine *m, size_t from, size_t count)
{
    struct item *list = top(m);
    bool         good = list != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = append(m, list, m->stack[from + i]);
    return good;
}

static bool
set_all(struct machine *m, size_t from, size_t count)
{
    struct item *dict = top(m);
    bool         good = dict != NULL;
    if (good && count % 2 != 0)
        return refuse(m, "is no pickle: at byte %zu a key has no value", m->in.at);
    for (size_t i = 0; good && i < count; i += 2)
        good = set(m, dict, m->stack[from + i], m->stack[from + i + 1]);
    return good;
}

static bool
make_container(struct machine *m, uint8_t code)
{
    return push_value(m, code == '}' ? json_object() : json_array(), 1);
}

/* LIST, TUPLE, DICT: of all above the mark. The values lie above the new container, where the stack was cut. */
static bool
make_of_mark(struct machine *m, uint8_t code)
{
    size_t from = 0, count = 0;
    if (!pop_mark(m, &from, &count) || !vec_room(&m->stack, &m->room, from + count + 1, sizeof *m->stack))
        return refuse(m, "there is no memory for it");
    memmove(m->stack + from + 1, m->stack + from, count * sizeof *m->stack);
    if (!push_value(m, code == 'd' ? json_object() : json_array(), 1))
        return false;
    return code == 'd' ? set_all(m, from + 1, count) : append_all(m, from + 1, count);
}

static bool
make_tuple(struct machine *m, uint8_t code)
{
    size_t count = (size_t)code - 0x84;
    if (m->depth - bottom(m) < count)
        return refuse(m, "is no pickle: at byte %zu its stack is empty", m->in.at);
    m->depth -= count;
    if (!vec_room(&m->marks, &m->mark_room, m->mark_count + 1, sizeof *m->marks))
        return refuse(m, "there is no memory for it");
    m->marks[m->mark_count++] = m->depth;
    m->depth += count;
    return make_of_mark(m, 't');
}

static bool
put_above_mark(struct machine *m, uint8_t code)
{
    size_t from = 0, count = 0;
    return pop_mark(m, &from, &count) && (code == 'u' ? set_all(m, from, count) : append_all(m, from, count));
}

static bool
put_one(struct machine *m, uint8_t code)
{
    struct item *item = pop(m), *key = code == 's' ? pop(m) : item, *into = key != NULL ? top(m) : NULL;
    if (item == NULL || key == NULL || into == NULL)
        return false;
    return code == 's' ? set(m, into, key, item) : append(m, into, item);
}

static bool
move_stack(struct machine *m, uint8_t code)
{
    size_t       from, count;
    struct item *item = NULL;
    switch (code) {
    case '(':
        if (!vec_room(&m->marks, &m->mark_room, m->mark_count + 1, sizeof *m->marks))
            return refuse(m, "there is no memory for it");
        m->marks[m->mark_count++] = m->depth;
        return true;
    case '1': return pop_mark(m, &from, &count);
    case '2': return (item = top(m)) != NULL && push(m, item);
    default:  return pop(m) != NULL; /* '0' */
    }
}

/* ---- lines of protocol 0 ---- */

enum { LINE = 4096 };

/* To the line's end, which is read too; NULL: there is none. */
static const char *
read_line(struct machine *m, size_t *length)
{
    const char *start = (const char *)m->in.bytes + m->in.at;
    const char *end   = m->in.at < m->in.size ? memchr(start, '\n', m->in.size - m->in.at) : NULL;
    if (end == NULL) {
        cut_short(m);
        return NULL;
    }
    *length = (size_t)(end - start);
    m->in.at += *length + 1;
    return start;
}

static bool
no_number(struct machine *m)
{
    return refuse(m, "is no pickle: at byte %zu there is no number", m->in.at);
}

static bool
read_digits(struct machine *m, char digits[LINE])
{
    size_t      length = 0;
    const char *line   = read_line(m, &length);
    if (line == NULL || length == 0 || length >= LINE || memchr(line, '\0', length) != NULL)
        return no_number(m);
    memcpy(digits, line, length);
    digits[length] = '\0';
    return true;
}

/* What does not fit becomes the largest: no field of a dump is so large. */
static bool
read_decimal(struct machine *m, const char *digits, int64_t *number)
{
    char *end = NULL;
    *number   = strtoll(digits, &end, 10);
    return (end > digits && (strcmp(end, "") == 0 || strcmp(end, "L") == 0)) || no_number(m);
}

/* INT's 00 and 01 are booleans. */
static bool
push_decimal(struct machine *m, uint8_t code)
{
    char    digits[LINE];
    int64_t number = 0;
    if (!read_digits(m, digits))
        return false;
    if (code == 'I' && (strcmp(digits, "00") == 0 || strcmp(digits, "01") == 0))
        return push_value(m, json_boolean(digits[1] == '1'), 0);
    return read_decimal(m, digits, &number) && push_value(m, json_integer(number), 0);
}

static bool
push_real(struct machine *m, double real)
{
    return push_value(m, isfinite(real) ? json_real(real) : json_null(), 0); /* JSON has no nan and no inf */
}

static bool
push_float_line(struct machine *m, uint8_t code)
{
    char digits[LINE], *end = digits;
    (void)code;
    if (!read_digits(m, digits))
        return false;
    double real = strtod(digits, &end);
    return *end == '\0' ? push_real(m, real) : no_number(m);
}

/* A backslash and what follows it, as Python's repr (quoted) or raw-unicode-escape writes it; answers its length. */
static size_t
add_escaped(struct str *out, const char *text, size_t left, bool quoted)
{
    static const char letters[] = "ntr\\'\"", meant[] = "\n\t\r\\'\"";
    uint32_t          code      = 0;
    const char       *letter    = quoted && left > 1 && text[1] != '\0' ? strchr(letters, text[1]) : NULL;
    if (letter != NULL) {
        str_add_bytes(out, &meant[letter - letters], 1);
        return 2;
    }
    size_t digits = left < 2 ? 0 : quoted ? (text[1] == 'x' ? 2 : 0) : text[1] == 'u' ? 4 : text[1] == 'U' ? 8 : 0;
    if (digits == 0 || !hexadecimal_take(text + 2, left - 2, digits, &code)) {
        str_add(out, "\\");
        return 1;
    }
    utf8_add(out, code);
    return 2 + digits;
}

/* STRING: Python's repr of it. UNICODE: as it is, but for \u. */
static bool
push_text_line(struct machine *m, uint8_t code)
{
    size_t      length = 0;
    bool        quoted = code == 'S';
    const char *line   = read_line(m, &length);
    if (line == NULL)
        return false;
    if (quoted && (length < 2 || line[0] != line[length - 1] || (line[0] != '\'' && line[0] != '"')))
        return refuse(m, "is no pickle: at byte %zu a text has no quotes", m->in.at);
    line   += quoted;
    length -= quoted ? 2 : 0;
    struct str text = { 0 };
    for (size_t i = 0; i < length;) {
        if (line[i] == '\\')
            i += add_escaped(&text, line + i, length - i, quoted);
        else
            utf8_add(&text, (unsigned char)line[i++]);
    }
    bool good = str_ok(&text) ? push_text(m, str_text(&text), text.len) : refuse(m, "there is no memory for it");
    str_free(&text);
    return good;
}

/* ---- scalars ---- */

static bool
push_number(struct machine *m, uint8_t code)
{
    int64_t number = code == 'K' ? read_u8(&m->in) : code == 'M' ? read_u16(&m->in) : (int32_t)read_u32(&m->in);
    return m->in.broken ? cut_short(m) : push_value(m, json_integer(number), 0);
}

/* Little-endian, two's complement, any length: what does not fit becomes the largest. */
static bool
push_long(struct machine *m, uint8_t code)
{
    size_t         count  = code == 0x8a ? read_u8(&m->in) : read_u32(&m->in);
    const uint8_t *bytes  = read_bytes(&m->in, count);
    uint64_t       number = 0;
    if (bytes == NULL)
        return cut_short(m);
    bool negative = count > 0 && bytes[count - 1] & 0x80, fits = true;
    for (size_t i = 0; i < 8; i++)
        number |= (uint64_t)(i < count ? bytes[i] : negative ? 0xff : 0) << 8 * i;
    for (size_t i = 8; i < count; i++)
        fits = fits && bytes[i] == (negative ? 0xff : 0);
    fits = fits && (number >> 63 != 0) == negative;
    return push_value(m, json_integer(fits ? (int64_t)number : negative ? INT64_MIN : INT64_MAX), 0);
}

static bool
push_constant(struct machine *m, uint8_t code)
{
    return push_value(m, code == 'N' ? json_null() : json_boolean(code == 0x88), 0);
}

static bool
push_float(struct machine *m, uint8_t code)
{
    const uint8_t *bytes = read_bytes(&m->in, 8);
    uint64_t       bits  = 0;
    double         real;
    (void)code;
    if (bytes == NULL)
        return cut_short(m);
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    memcpy(&real, &bits, sizeof real);
    return push_real(m, real);
}

/* Texts and bytes, by the width of their length. */
static bool
push_text_1(struct machine *m, uint8_t code)
{
    size_t count = read_u8(&m->in);
    (void)code;
    return push_text(m, read_bytes(&m->in, count), count);
}

static bool
push_text_4(struct machine *m, uint8_t code)
{
    size_t count = read_u32(&m->in);
    (void)code;
    return push_text(m, read_bytes(&m->in, count), count);
}

static bool
push_text_8(struct machine *m, uint8_t code)
{
    uint64_t count = read_u64(&m->in);
    (void)code;
    return count > m->in.size ? cut_short(m) : push_text(m, read_bytes(&m->in, (size_t)count), (size_t)count);
}

/* ---- memo and frames ---- */

static bool
memo_number(struct machine *m, uint8_t code, uint64_t *number)
{
    char    digits[LINE];
    int64_t decimal = 0;
    if (code == 'p' || code == 'g') {
        bool good = read_digits(m, digits) && read_decimal(m, digits, &decimal);
        *number   = (uint64_t)decimal;
        return good;
    }
    *number = code == 'q' || code == 'h' ? read_u8(&m->in) : read_u32(&m->in);
    return !m->in.broken || cut_short(m);
}

static bool
put_memo(struct machine *m, uint8_t code)
{
    uint64_t     number = m->memo.count;
    struct item *item   = top(m);
    if (item == NULL || (code != 0x94 && !memo_number(m, code, &number)))
        return false;
    if (m->memo.count >= DUMP_VALUES)
        return refuse(m, "holds more than %d values", DUMP_VALUES);
    return map_set(&m->memo, number, (uintptr_t)item) || refuse(m, "there is no memory for it");
}

static bool
get_memo(struct machine *m, uint8_t code)
{
    uint64_t number = 0, known = 0;
    if (!memo_number(m, code, &number))
        return false;
    if (!map_get(&m->memo, number, &known))
        return refuse(m, "is no pickle: at byte %zu its memo has no such number", m->in.at);
    return push(m, (struct item *)(uintptr_t)known);
}

/* PROTO, FRAME: where lengths are checked as they are met, a frame says nothing more. */
static bool
pass_header(struct machine *m, uint8_t code)
{
    uint64_t said = code == 0x80 ? read_u8(&m->in) : read_u64(&m->in);
    if (code == 0x80 && said > 5)
        return refuse(m, "is a pickle of protocol %u; 0 to 5 can be read", (unsigned)said);
    return !m->in.broken || cut_short(m);
}

static bool
stop(struct machine *m, uint8_t code)
{
    (void)code;
    m->stopped = true;
    return m->depth == 1 && m->mark_count == 0 ? true
                                               : refuse(m, "is no pickle: it ends with %zu values, not one", m->depth);
}

/* ---- the language ---- */

static const struct opcode {
    uint8_t code;
    bool  (*run)(struct machine *m, uint8_t code);
} opcodes[] = {
    { 0x80, pass_header }, { 0x95, pass_header }, { '.', stop },
    { '}', make_container }, { ']', make_container }, { ')', make_container },
    { 'd', make_of_mark }, { 'l', make_of_mark }, { 't', make_of_mark },
    { 0x85, make_tuple }, { 0x86, make_tuple }, { 0x87, make_tuple },
    { 'a', put_one }, { 's', put_one }, { 'e', put_above_mark }, { 'u', put_above_mark },
    { '(', move_stack }, { '0', move_stack }, { '1', move_stack }, { '2', move_stack },
    { 'X', push_text_4 }, { 0x8c, push_text_1 }, { 0x8d, push_text_8 },               /* unicode */
    { 'T', push_text_4 }, { 'U', push_text_1 }, { 'B', push_text_4 }, { 'C', push_text_1 }, { 0x8e, push_text_8 },
    { 0x96, push_text_8 }, { 'S', push_text_line }, { 'V', push_text_line },
    { 'K', push_number }, { 'M', push_number }, { 'J', push_number }, { 0x8a, push_long }, { 0x8b, push_long },
    { 'I', push_decimal }, { 'L', push_decimal }, { 'F', push_float_line }, { 'G', push_float },
    { 'N', push_constant }, { 0x88, push_constant }, { 0x89, push_constant },
    { 'p', put_memo }, { 'q', put_memo }, { 'r', put_memo }, { 0x94, put_memo },
    { 'g', get_memo }, { 'h', get_memo }, { 'j', get_memo },
};

static const struct { uint8_t code; const char *name; } refused[] = {
    { 'c', "GLOBAL" }, { 0x93, "STACK_GLOBAL" }, { 'R', "REDUCE" }, { 'b', "BUILD" }, { 'i', "INST" }, { 'o', "OBJ" },
    { 0x81, "NEWOBJ" }, { 0x92, "NEWOBJ_EX" }, { 0x82, "EXT1" }, { 0x83, "EXT2" }, { 0x84, "EXT4" }, { 'P', "PERSID" },
    { 'Q', "BINPERSID" }, { 0x97, "NEXT_BUFFER" }, { 0x98, "READONLY_BUFFER" },
};

/* "GLOBAL os system": what it would call, where the code says so. */
static bool
refuse_code(struct machine *m, uint8_t code, size_t at)
{
    const char *name = NULL;
    for (size_t i = 0; i < countof(refused); i++)
        name = refused[i].code == code ? refused[i].name : name;
    if (name == NULL)
        return refuse(m, "is neither JSON nor a pickle of plain data: byte %zu is 0x%02x", at, code);
    size_t      module_length = 0, length = 0;
    const char *module = code == 'c' || code == 'i' ? read_line(m, &module_length) : NULL;
    const char *object = module != NULL ? read_line(m, &length) : NULL;
    m->why[0]          = '\0';
    if (object == NULL)
        return refuse(m, "wants to run code (%s at byte %zu); a dump holds plain data, so it was not read", name, at);
    int shown = length < 60 ? (int)length : 60, module_shown = module_length < 60 ? (int)module_length : 60;
    return refuse(m, "wants to run code (%s %.*s.%.*s at byte %zu); a dump holds plain data, so it was not read", name,
                  module_shown, module, shown, object, at);
}

static bool
run(struct machine *m)
{
    while (!m->stopped) {
        size_t  at   = m->in.at;
        uint8_t code = read_u8(&m->in);
        if (m->in.broken)
            return cut_short(m);
        const struct opcode *opcode = NULL;
        for (size_t i = 0; i < countof(opcodes) && opcode == NULL; i++)
            opcode = opcodes[i].code == code ? &opcodes[i] : NULL;
        if (opcode == NULL)
            return refuse_code(m, code, at);
        if (!opcode->run(m, code))
            return false;
    }
    return true;
}

json_t *
dump_unpickle(const void *bytes, size_t size, char *why, size_t room)
{
    struct machine m = { .in = reader_of(bytes, size), .why = why, .why_room = room };
    why[0]           = '\0';
    json_t *value    = run(&m) ? json_incref(m.stack[0]->value) : NULL;
    for (size_t i = 0; i < m.made; i++)
        json_decref(m.all[i]->value);
    free(m.all);
    free(m.stack);
    free(m.marks);
    map_free(&m.memo);
    arena_free(&m.arena);
    return value;
}
