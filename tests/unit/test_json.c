/* JSON is taken and refused as jansson does, whose values it becomes, and is told from want of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include "base/json_text.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"

/* From a block of just this size, so that a sanitizer sees a byte too many. */
static json_t *
parse(const char *text, size_t length, size_t flags, struct json_wrong *wrong)
{
    char *exact = malloc(length + (length == 0));
    assert_non_null(exact);
    memcpy(exact, text, length);
    json_t *value = json_text_parse(exact, length, flags, wrong);
    free(exact);
    return value;
}

static void
agrees(const char *text, size_t length, size_t flags)
{
    struct json_wrong wrong;
    json_t           *ours = parse(text, length, flags, &wrong), *theirs = json_loadb(text, length, flags, NULL);
    if (json_equal(ours, theirs) != (ours != NULL) || (ours == NULL) != (theirs == NULL))
        fail_msg("%.*s: ours %s, jansson's %s", (int)length, text, ours != NULL ? "takes it" : wrong.why,
                 theirs != NULL ? "takes it" : "refuses it");
    assert_true((wrong.why == NULL) == (ours != NULL));
    json_decref(ours);
    json_decref(theirs);
}

static const char *const texts[] = {
    "{}", "[]", " [ 1 , -2.5e-3 , true, false ,null ]\n", "{\"a\":{\"b\":[[],{}]},\"c\":\"\\u00e9\\n\\\"\\/\\ud83d\\ude00\"}",
    "[0, -0, 0.5, 1E5, 9223372036854775807, -9223372036854775808, 0.10000000000000001, 5e-324]",
    "{\"one\":1,\"one\":2}", "[\"\\u0000\"]", "{\"a\\u0000b\":1}", "[\"\xc3\xa9 \xf0\x9f\x98\x80 \x7f\"]",
    "", " ", "1", "\"a\"", "null", "[01]", "[1.]", "[.5]", "[+1]", "[1e]", "[1e+]", "[-]", "[--1]", "[0x1]", "[1,]", "[,1]",
    "{,}", "{\"a\"}", "{\"a\":}", "{a:1}", "{1:2}", "{\"a\":1,}", "[1 2]", "[1]]", "[]{}", "[1}", "{\"a\":1]", "[truefalse]",
    "[tru]", "[True]", "[nul", "[\"\\x\"]", "[\"\\u12\"]", "[\"\\ud800\"]", "[\"\\ud800\\u0041\"]", "[\"\\udc00\"]", "[\"a\nb\"]",
    "[\"\x01\"]", "[\"\xff\"]", "[\"\xed\xa0\x80\"]", "[\"\xc0\x80\"]", "[\"", "[\"a", "[\"a\\", "[\"\\\"", "[1e999]", "[-1e999]",
    "[9223372036854775808]", "[-9223372036854775809]", "[1e-999]", "[NaN]", "[Infinity]", "\xef\xbb\xbf[]", "[1]\f", "[1]x",
};

static void
each_text_means_what_jansson_reads(void **state)
{
    for (size_t i = 0; i < countof(texts); i++)
        for (size_t length = 0; length <= strlen(texts[i]); length++) {
            agrees(texts[i], length, 0);
            agrees(texts[i], length, JSON_REJECT_DUPLICATES);
            agrees(texts[i], length, JSON_ALLOW_NUL);
        }
    agrees("[\"a\0b\"]", 7, JSON_ALLOW_NUL);
    agrees("[1]\0", 4, 0);
}

/* Bytes changed, left out and put in. */
static void
a_broken_text_is_refused_where_jansson_refuses_it(void **state)
{
    static const char odd[] = "{}[]\",:\\u0e+-.tfn \x80\xc3";
    uint64_t          random = 28;
    for (int round = 0; round < 20000; round++) {
        const char *text   = texts[splitmix(&random) % countof(texts)];
        size_t      length = strlen(text), at = length > 0 ? splitmix(&random) % length : 0;
        char        changed[120];
        memcpy(changed, text, length);
        for (int i = 0; length > 0 && i < 2; i++, at = splitmix(&random) % length)
            changed[at] = odd[splitmix(&random) % (sizeof odd - 1)];
        agrees(changed, length, round % 2 != 0 ? JSON_ALLOW_NUL : JSON_REJECT_DUPLICATES);
    }
}

static void
a_wrong_text_is_told_with_its_line(void **state)
{
    static const struct { const char *text, *why; int line; } cases[] = {
        { "", "'{' or '[' was expected", 1 }, { "\n\n[1,\n x]", "a value was expected", 4 },
        { "{\"a\":1,\n\"a\":2}", "a name that comes twice", 2 }, { "[1}", "',' or ']' was expected", 1 },
        { "[\n\"abc", "a text without its end", 2 }, { "[1]\n\n2", "more follows its end", 3 },
        { "{\n\"a\" 1}", "':' was expected", 2 },
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct json_wrong wrong;
        assert_null(parse(cases[i].text, strlen(cases[i].text), JSON_REJECT_DUPLICATES, &wrong));
        assert_string_equal(wrong.why, cases[i].why);
        assert_int_equal(wrong.line, cases[i].line);
    }
}

static void
nesting_has_a_bound(void **state)
{
    enum { MOST = 2048 };
    static char text[2 * MOST + 2];
    memset(text, '[', MOST);
    memset(text + MOST, ']', MOST);
    agrees(text, 2 * MOST, 0);
    memset(text, '[', MOST + 1);
    memset(text + MOST + 1, ']', MOST + 1);
    agrees(text, 2 * MOST + 2, 0);
}

static void
what_is_written_is_read_again(void **state)
{
    for (size_t i = 0; i < countof(texts); i++) {
        struct json_wrong wrong;
        struct str        out   = { 0 };
        json_t           *value = parse(texts[i], strlen(texts[i]), 0, &wrong), *again;
        if (value == NULL)
            continue;
        assert_true(json_text_write(value, &out));
        char *theirs = json_dumps(value, JSON_COMPACT);
        assert_string_equal(str_text(&out), theirs);
        again = parse(out.text, out.len, 0, &wrong);
        assert_true(json_equal(value, again));
        free(theirs);
        str_free(&out);
        json_decref(value);
        json_decref(again);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_means_what_jansson_reads),
        cmocka_unit_test(a_broken_text_is_refused_where_jansson_refuses_it),
        cmocka_unit_test(a_wrong_text_is_told_with_its_line),
        cmocka_unit_test(nesting_has_a_bound),
        cmocka_unit_test(what_is_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
