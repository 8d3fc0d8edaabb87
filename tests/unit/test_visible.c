/* What goes to a terminal as it is, and how the rest is spelled out: every byte, every character, every broken form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"

static void
shows(const char *text, size_t count, enum visible_form form, const char *expected)
{
    struct str out = { 0 };
    visible_add(&out, text, count, form);
    assert_true(str_ok(&out));
    assert_string_equal(str_text(&out), expected);
    str_free(&out);
}

static void
every_byte_alone_is_ascii_or_spelled_out(void **state)
{
    for (int value = 0; value < 256; value++) {
        char byte = (char)value, itself[] = { byte, '\0' }, spelled[8], json[8];
        bool plain = value >= 0x20 && value < 0x7f;
        snprintf(spelled, sizeof spelled, "\\x%02x", (unsigned)value);
        shows(&byte, 1, VISIBLE_LINES, plain || byte == '\n' || byte == '\t' ? itself : spelled);
        shows(&byte, 1, VISIBLE_LINE, plain ? itself : byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : spelled);
        if (byte == '"' || byte == '\\')
            snprintf(json, sizeof json, "\\%c", byte);
        else
            snprintf(json, sizeof json, "\\u%04x", value < 0x80 ? (unsigned)value : 0xfffdu);
        shows(&byte, 1, VISIBLE_JSON, plain && byte != '"' && byte != '\\' ? itself : json);
    }
    shows("", 0, VISIBLE_LINE, "");
    shows("one\ttwo\n\"three\"\\", 16, VISIBLE_LINES, "one\ttwo\n\"three\"\\");
}

/* Without asking whether the character may be written so: surrogates too. */
static size_t
encode(uint32_t code, char out[5])
{
    size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = more; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0]        = (char)(lead[more] | code);
    out[more + 1] = '\0';
    return more + 1;
}

static bool
steers(uint32_t code)
{
    static const uint32_t marks[] = { 0x61c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c,
                                      0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069 };
    bool found = code >= 0x80 && code < 0xa0;
    for (size_t i = 0; i < countof(marks); i++)
        found = found || code == marks[i];
    return found;
}

static void
every_character_passes_unless_it_steers(void **state)
{
    for (uint32_t code = 0x80; code <= 0x10ffff; code++) {
        char     text[5], spelled[16], json[16];
        uint32_t taken = 0;
        size_t   count = encode(code, text);
        if (code >= 0xd800 && code <= 0xdfff) {
            assert_int_equal(utf8_take(text, count, &taken), 0);
            assert_int_equal(visible_length(text, count, VISIBLE_LINES), 0);
            continue;
        }
        assert_int_equal(utf8_take(text, count, &taken), count);
        assert_int_equal(taken, code);
        assert_int_equal(visible_length(text, count, VISIBLE_LINE), steers(code) ? 0 : count);
        assert_int_equal(visible_length(text, count, VISIBLE_JSON), steers(code) ? 0 : count);
        if (!steers(code))
            continue;
        snprintf(spelled, sizeof spelled, "\\u{%x}", (unsigned)code);
        snprintf(json, sizeof json, "\\u%04x", (unsigned)code);
        shows(text, count, VISIBLE_LINES, spelled);
        shows(text, count, VISIBLE_LINE, spelled);
        shows(text, count, VISIBLE_JSON, json);
    }
}

static void
broken_utf8_is_spelled_out_byte_by_byte(void **state)
{
    shows("\xc0\xaf", 2, VISIBLE_LINES, "\\xc0\\xaf");
    shows("\xe0\x80\x9b", 3, VISIBLE_LINES, "\\xe0\\x80\\x9b");
    shows("\xf0\x80\x80\x9b", 4, VISIBLE_LINES, "\\xf0\\x80\\x80\\x9b");
    shows("\xed\xa0\x80", 3, VISIBLE_LINES, "\\xed\\xa0\\x80");
    shows("\xf4\x90\x80\x80", 4, VISIBLE_LINES, "\\xf4\\x90\\x80\\x80");
    shows("\xf8\x88\x80\x80\x80", 5, VISIBLE_LINES, "\\xf8\\x88\\x80\\x80\\x80");
    shows("\xe3\x81" "a", 3, VISIBLE_LINES, "\\xe3\\x81a");
    shows("a\xe3\x81\x82", 3, VISIBLE_LINES, "a\\xe3\\x81"); /* what lies behind the count is not read */
    shows("\xe3\x81\x82\x82", 4, VISIBLE_LINES, "\xe3\x81\x82\\x82");
    shows("\xe3\xe3\x81\x82", 4, VISIBLE_JSON, "\\ufffd\xe3\x81\x82");
}

static void
honest_writing_passes_unchanged(void **state)
{
    static const char *const honest[] = {
        "plain", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80",
        "e\xcc\x81", "\xe2\x94\x8c\xe2\x94\x80\xe2\x94\x90", "\xc3\xa9\xc2\xa0\xc2\xb5", "\xef\xbf\xbd", "a\\x1b",
    };
    for (size_t i = 0; i < countof(honest); i++) {
        shows(honest[i], strlen(honest[i]), VISIBLE_LINES, honest[i]);
        shows(honest[i], strlen(honest[i]), VISIBLE_LINE, honest[i]);
    }
}

/* Bytes that often make characters, whole and broken. */
static size_t
random_text(uint64_t *random, char *text, size_t room)
{
    size_t count = splitmix(random) % (room - 5), at = 0;
    while (at < count) {
        uint64_t dice = splitmix(random);
        if (dice % 3 == 0)
            text[at++] = (char)(dice >> 8);
        else
            at += encode(dice % 3 == 1 ? (uint32_t)(dice >> 8) % 0x3000 : (uint32_t)(dice >> 8) % 0x110000, text + at);
    }
    return at;
}

static void
what_was_spelled_out_passes_a_second_time_unchanged(void **state)
{
    uint64_t random = 3;
    char     text[100];
    for (int round = 0; round < 5000; round++) {
        size_t     count = random_text(&random, text, sizeof text);
        struct str once = { 0 };
        visible_add(&once, text, count, round % 2 == 0 ? VISIBLE_LINES : VISIBLE_LINE);
        shows(str_text(&once), once.len, VISIBLE_LINES, str_text(&once));
        for (size_t i = 0; i < once.len; i++)
            assert_true((unsigned char)once.text[i] >= 0x20 || strchr("\n\t", once.text[i]) != NULL);
        str_free(&once);
    }
}

static void
a_file_gets_what_a_text_gets(void **state)
{
    uint64_t random = 4;
    char     text[100], read[1000];
    for (int round = 0; round < 200; round++) {
        size_t            count = random_text(&random, text, sizeof text);
        enum visible_form form = (enum visible_form)(round % 3);
        FILE             *file = tmpfile();
        assert_non_null(file);
        visible_write(file, text, count, form);
        rewind(file);
        read[fread(read, 1, sizeof read - 1, file)] = '\0';
        fclose(file);
        shows(text, count, form, read);
    }
}

static void
json_is_valid_and_says_the_same_text(void **state)
{
    uint64_t random = 5;
    char     text[100];
    for (int round = 0; round < 5000; round++) {
        size_t     count = random_text(&random, text, sizeof text);
        struct str line = { 0 };
        str_add(&line, "[\"");
        visible_add(&line, text, count, VISIBLE_JSON);
        str_add(&line, "\"]");
        json_t *read = json_loadb(line.text, line.len, JSON_ALLOW_NUL, NULL);
        assert_non_null(read);
        const char *again = json_string_value(json_array_get(read, 0));
        uint32_t    code, answered;
        for (size_t at = 0; at < count;) {
            size_t taken = utf8_take(text + at, count - at, &code);
            size_t behind = utf8_take(again, 4, &answered);
            assert_int_equal(answered, taken > 0 ? code : 0xfffd);
            at += taken > 0 ? taken : 1;
            again += behind;
        }
        json_decref(read);
        str_free(&line);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_alone_is_ascii_or_spelled_out),
        cmocka_unit_test(every_character_passes_unless_it_steers),
        cmocka_unit_test(broken_utf8_is_spelled_out_byte_by_byte),
        cmocka_unit_test(honest_writing_passes_unchanged),
        cmocka_unit_test(what_was_spelled_out_passes_a_second_time_unchanged),
        cmocka_unit_test(a_file_gets_what_a_text_gets),
        cmocka_unit_test(json_is_valid_and_says_the_same_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
