/* From bytes to keys, and the line that is typed with them. */
#include "view_rig.h"
#include "../../trace_viewer/decode.h"
#include "../../trace_viewer/prompt.h"
#include "base/rng.h"

#include <stdio.h>

/* What the bytes are as keys, with blanks between; `late`: nothing follows. */
static void
decode(struct decoder *decoder, const char *bytes, size_t count, bool late, char *out, size_t size)
{
    char key[KEY_ROOM];
    out[0] = '\0';
    decoder_feed(decoder, bytes, count);
    while (decoder_key(decoder, late, 1000, key)) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", used > 0 ? " " : "", key);
    }
}

static void
bytes_become_keys(void **state)
{
    static const struct { const char *bytes, *keys; } cases[] = {
        { "a\rZ \t\x7f\x08\x0c", "a Enter Z Space Tab Backspace Backspace ^L" },
        { "\x1b[A\x1bOB\x1b[C\x1b[H\x1b[4~\x1b[5~\x1b[Z", "Up Down Right Home End PageUp BackTab" },
        { "\x1bOP\x1b[15~\x1b[21~\x1b[[A", "F1 F5 F10 F1" },
        { "\x1b[1;2A\x1b[1;5C\x1b[3;5~", "ShiftUp CtrlRight CtrlDelete" },
        { "\x1bx\x1b\x1b[A", "Esc x Esc Up" },
        { "\xc3\xa9\xe2\x94\x80", "\xc3\xa9 \xe2\x94\x80" },
        { "\x1b[<0;12;5M\x1b[<0;12;5m", "Click 12,5" },
        { "\x1b[<0;12;5M\x1b[<32;13;5M\x1b[<32;13;5M\x1b[<32;14;6M\x1b[<0;14;6m",
          "Click 12,5 Drag 12,5 13,5 Drag 12,5 14,6" },
        { "\x1b[<0;3;3M\x1b[<0;3;3m\x1b[<0;3;3M\x1b[<0;3;3m\x1b[<0;3;3M", "Click 3,3 DoubleClick 3,3 Click 3,3" },
        { "\x1b[<64;1;2M\x1b[<65;1;2M\x1b[<80;1;2M\x1b[<69;1;2M\x1b[<66;1;2M",
          "WheelUp 1,2 WheelDown 1,2 CtrlWheelUp 1,2 ShiftWheelDown 1,2 ShiftWheelUp 1,2" },
        { "\x1b[200~s \n\x1b[A\x1b[201~s", "Paste s Paste   Paste   Paste [ Paste A s" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct decoder decoder = { .down_ms = -10000 };
        char           keys[400];
        decode(&decoder, cases[i].bytes, strlen(cases[i].bytes), false, keys, sizeof keys);
        assert_string_equal(keys, cases[i].keys);
        assert_int_equal(decoder.count, 0);
    }
}

static void
what_is_broken_acts_as_no_key(void **state)
{
    static const char *const broken[] = {
        "\x1b[9999999999999M", "\x1b[<0;M", "\x1b[<0;0;0M", "\x1b[<1;2;3;4;5M", "\x1b[?1;2c", "\x1b]0;x\a", "\x1bPq\x1b\\",
        "\x1b[M\xff\xff\xff", "\xff\xfe\xc2\x9b", "\x1b[<2;5;5M", "\x1b[<35;5;5M", "\x1b[200~\x1b[201~", "\x1b[I\x1b[O",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct decoder decoder = { .down_ms = -10000 };
        char           keys[400];
        decode(&decoder, broken[i], strlen(broken[i]), true, keys, sizeof keys);
        assert_string_equal(keys, "");
    }
}

static void
bytes_that_come_one_by_one_are_the_same_keys(void **state)
{
    static const char bytes[] = "\x1b[<0;12;5M\x1b[A\x1bOP\x1b[200~ab\x1b[201~\xe2\x94\x80q";
    struct decoder decoder = { .down_ms = -10000 };
    char keys[400] = "", key[KEY_ROOM];
    for (size_t i = 0; i + 1 < sizeof bytes; i++) {
        decoder_feed(&decoder, bytes + i, 1);
        while (decoder_key(&decoder, false, 1000, key)) {
            size_t used = strlen(keys);
            snprintf(keys + used, sizeof keys - used, "%s%s", used > 0 ? " " : "", key);
        }
    }
    assert_string_equal(keys, "Click 12,5 Up F1 Paste a Paste b \xe2\x94\x80 q");
}

static void
esc_is_a_key_once_nothing_follows(void **state)
{
    struct decoder decoder = { .down_ms = -10000 };
    char keys[100];
    decode(&decoder, "\x1b", 1, false, keys, sizeof keys);
    assert_string_equal(keys, "");
    assert_true(decoder_waits(&decoder));
    decode(&decoder, "", 0, true, keys, sizeof keys);
    assert_string_equal(keys, "Esc");
    decode(&decoder, "\x1b[200~x", 7, false, keys, sizeof keys);
    assert_string_equal(keys, "Paste x");
    decode(&decoder, "\x1b", 1, true, keys, sizeof keys); /* out of a paste whose end was lost */
    decode(&decoder, "q", 1, false, keys, sizeof keys);
    assert_string_equal(keys, "q");
}

static void
any_bytes_end(void **state)
{
    struct generator rng = { .seed = 0 };
    generator_seed(&rng, 7);
    for (int round = 0; round < 2000; round++) {
        struct decoder decoder = { .down_ms = -10000 };
        char bytes[64], keys[4096];
        size_t count = generator_u32(&rng) % sizeof bytes;
        for (size_t i = 0; i < count; i++)
            bytes[i] = generator_u32(&rng) % 3 == 0 ? "\x1b[<;OM~m0129"[generator_u32(&rng) % 12] : (char)(generator_u32(&rng) % 256);
        decode(&decoder, bytes, count, generator_u32(&rng) % 2 == 0, keys, sizeof keys);
        decode(&decoder, "", 0, true, keys, sizeof keys);
        assert_int_equal(decoder.count, 0);
    }
}

static void
type(struct prompt *prompt, const char *const *keys)
{
    for (; *keys != NULL; keys++)
        prompt_key(prompt, *keys);
}

static void
a_line_is_edited_where_its_caret_stands(void **state)
{
    struct prompt prompt = { .caret = 0 };
    prompt_open(&prompt, ":");
    type(&prompt, (const char *const[]){ "b", "d", "Left", "c", "Home", "a", "End", "e", "Space", "f", NULL });
    assert_string_equal(prompt.typed, "abcde f");
    type(&prompt, (const char *const[]){ "^W", "Backspace", NULL });
    assert_string_equal(prompt.typed, "abcde");
    type(&prompt, (const char *const[]){ "^A", "Delete", "Right", "^U", NULL });
    assert_string_equal(prompt.typed, "cde");
    type(&prompt, (const char *const[]){ "Right", "\xc3\xa9", "Backspace", "^K", NULL });
    assert_string_equal(prompt.typed, "c");
    prompt_free(&prompt);
}

static void
lines_are_recalled_at_their_own_prompt(void **state)
{
    struct prompt prompt = { .caret = 0 };
    static const char *const lines[] = { "one", "two", "one" };
    for (size_t i = 0; i < 3; i++) {
        prompt_open(&prompt, ":");
        for (const char *at = lines[i]; *at != '\0'; at++)
            prompt_key(&prompt, (char[2]){ *at, '\0' });
        assert_int_equal(prompt_key(&prompt, "Enter"), PROMPT_ENTERED);
        prompt_close(&prompt);
    }
    prompt_open(&prompt, ":");
    type(&prompt, (const char *const[]){ "x", "Up", NULL });
    assert_string_equal(prompt.typed, "one");
    type(&prompt, (const char *const[]){ "Up", "Up", "Up", NULL });
    assert_string_equal(prompt.typed, "two"); /* each line once */
    type(&prompt, (const char *const[]){ "Down", "Down", "Down", NULL });
    assert_string_equal(prompt.typed, "x");
    prompt_open(&prompt, "/");
    type(&prompt, (const char *const[]){ "Up", NULL });
    assert_string_equal(prompt.typed, "");
    prompt_free(&prompt);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_keys),
        cmocka_unit_test(what_is_broken_acts_as_no_key),
        cmocka_unit_test(bytes_that_come_one_by_one_are_the_same_keys),
        cmocka_unit_test(esc_is_a_key_once_nothing_follows),
        cmocka_unit_test(any_bytes_end),
        cmocka_unit_test(a_line_is_edited_where_its_caret_stands),
        cmocka_unit_test(lines_are_recalled_at_their_own_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
