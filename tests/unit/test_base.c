/* The ground floor: types, texts, arrays, maps, arenas, bounded input. The generator has tests of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <math.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/map.h"
#include "base/number.h"
#include "base/reader.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"

static void
types_know_their_size_and_name(void **state)
{
    static const size_t sizes[DTYPE_COUNT] = { 4, 8, 8, 1, 4, 1, 2, 2, 1 };
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype again = DTYPE_COUNT;
        assert_int_equal(dtype_size((enum dtype)i), sizes[i]);
        assert_true(dtype_parse(dtype_name((enum dtype)i), &again));
        assert_int_equal(again, i);
        bool is_float = i == DTYPE_F32 || i == DTYPE_F64 || i == DTYPE_F16 || i == DTYPE_BF16;
        assert_int_equal(dtype_is_float((enum dtype)i), is_float);
    }
    enum dtype dtype = DTYPE_BOOL;
    assert_true(dtype_parse("double", &dtype));
    assert_int_equal(dtype, DTYPE_F64);
    assert_true(dtype_parse("long", &dtype));
    assert_int_equal(dtype, DTYPE_I64);
    assert_true(dtype_parse("char", &dtype));
    assert_int_equal(dtype, DTYPE_I8);
    assert_int_equal(DTYPE_I8, 8); /* as in the files that there are */
    assert_true(dtype_parse("long", &dtype));
    assert_false(dtype_parse("complex64", &dtype));
    assert_false(dtype_parse("", &dtype));
    assert_int_equal(dtype, DTYPE_I64);
}

/* Of each pair of neighbours: between them the even one, beside the middle the nearer one. */
static void
check_rounding(float (*value)(uint16_t), uint16_t (*nearest)(float), uint16_t infinity)
{
    for (uint16_t bits = 0; bits < infinity; bits++) {
        uint16_t next = (uint16_t)(bits + 1);
        double   at = (double)value(bits), step = at - (double)value((uint16_t)(bits == 0 ? 0 : bits - 1));
        double   above = next == infinity ? at + step : (double)value(next); /* where infinity would have its place */
        float    middle = (float)((at + above) / 2);
        assert_int_equal(nearest(value(bits)), bits);
        assert_int_equal(nearest(-value(bits)), bits | 0x8000);
        assert_int_equal(nearest(middle), bits & 1 ? next : bits);
        assert_int_equal(nearest(nextafterf(middle, 0)), bits);
        assert_int_equal(nearest(nextafterf(middle, INFINITY)), next);
        assert_int_equal(nearest(-nextafterf(middle, INFINITY)), next | 0x8000);
    }
    assert_int_equal(nearest(INFINITY), infinity);
    assert_true(value(infinity) > 0x1.fffffep127f && value((uint16_t)(infinity | 0x8000)) < -0x1.fffffep127f);
    for (uint32_t bits = infinity + 1u; bits < 0x8000; bits++)
        assert_true(isnan(value((uint16_t)bits)) && isnan(value(nearest(value((uint16_t)bits)))));
}

static void
sixteen_bit_floats_round_to_the_nearest_at_every_step(void **state)
{
    check_rounding(float_of_half, half_of_float, 0x7c00);
    check_rounding(float_of_bfloat, bfloat_of_float, 0x7f80);
    assert_true(float_of_half(1) == 0x1p-24f && float_of_half(0x7bff) == 65504 && float_of_half(0xc000) == -2);
    assert_true(float_of_bfloat(1) == 0x1p-133f && float_of_bfloat(0x3f80) == 1);
    assert_int_equal(half_of_float(NAN), 0x7e00);
    assert_int_equal(bfloat_of_float(NAN), 0x7fc0);
    assert_int_equal(half_of_float(1e-30f), 0);
}

static void
fractions_become_integers_without_a_trap(void **state)
{
    static const double huge[] = { 0x1p63, -0x1.1p63, 1e300, -1e300, INFINITY, -INFINITY, NAN };
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        assert_true(int64_of_double(huge[i]) == INT64_MIN);
        assert_true(int32_of_double(huge[i]) == INT32_MIN);
    }
    assert_true(int64_of_double(-2.9) == -2 && int64_of_double(-0x1p63) == INT64_MIN);
    assert_true(int32_of_double(2147483647.9) == INT32_MAX && int32_of_double(-2147483648.9) == INT32_MIN);
    unsigned char byte = 0;
    dtype_put_fraction(DTYPE_U8, &byte, -1.5);
    assert_int_equal(byte, 255);
    dtype_put_whole(DTYPE_U8, &byte, 300);
    assert_int_equal(byte, 44);
    static const struct { double from; int to; } cut[] = {
        { 127.9, 127 }, { 128, -128 }, { -128.9, -128 }, { -129, 127 }, { 300.7, 44 }, { -1.9, -1 }, { 0x1p31, 0 },
        { 0x1p32 + 5, 0 }, { NAN, 0 }, { INFINITY, 0 }, { -INFINITY, 0 },
    };
    for (size_t i = 0; i < countof(cut); i++) {
        dtype_put_fraction(DTYPE_I8, &byte, cut[i].from);
        assert_int_equal(dtype_whole(DTYPE_I8, &byte), cut[i].to);
    }
    dtype_put_whole(DTYPE_I8, &byte, 200);
    assert_int_equal(dtype_whole(DTYPE_I8, &byte), -56);
}

/* As trace files hold them: at any address. */
static void
elements_are_read_as_they_were_put(void **state)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype    dtype = (enum dtype)i;
        uint64_t      element = 0;
        unsigned char bytes[1 + sizeof element];
        dtype_put_fraction(dtype, &element, 1);
        memcpy(bytes + 1, &element, sizeof element);
        assert_true(dtype_fraction(dtype, bytes + 1) == 1 && dtype_whole(dtype, bytes + 1) == 1);
        dtype_put_whole(dtype, &element, -3);
        memcpy(bytes + 1, &element, sizeof element);
        assert_true(dtype_whole(dtype, bytes + 1) == (dtype == DTYPE_BOOL ? 1 : dtype == DTYPE_U8 ? 253 : -3));
        assert_true(dtype_fraction(dtype, bytes + 1) == (double)dtype_whole(dtype, bytes + 1));
    }
    assert_true(dtype_holds(DTYPE_U8, -255, true) && !dtype_holds(DTYPE_U8, -256, true));
    assert_false(dtype_holds(DTYPE_U8, -1.5, false) || dtype_holds(DTYPE_I32, 0x1p31, true));
    assert_true(dtype_holds(DTYPE_I8, -128, true) && dtype_holds(DTYPE_I8, 127.9, false));
    assert_false(dtype_holds(DTYPE_I8, -128.5, false) || dtype_holds(DTYPE_I8, 128, true));
    assert_false(dtype_holds(DTYPE_F16, 65505, true) || dtype_holds(DTYPE_I64, NAN, false));
    assert_true(dtype_holds(DTYPE_F16, INFINITY, false) && dtype_holds(DTYPE_F32, NAN, false));
}

static void
two_types_make_the_higher_one(void **state)
{
    static const enum dtype order[] = { DTYPE_BOOL, DTYPE_U8, DTYPE_I32, DTYPE_I64, DTYPE_F16, DTYPE_F32, DTYPE_F64 };
    for (int i = 0; i < 7; i++) {
        for (int j = 0; j < 7; j++)
            assert_int_equal(dtype_promote(order[i], order[j]), order[i > j ? i : j]);
        assert_int_equal(dtype_promote(DTYPE_BF16, order[i]), i < 4 ? DTYPE_BF16 : i == 4 ? DTYPE_F32 : order[i]);
        assert_int_equal(dtype_promote(order[i], DTYPE_BF16), dtype_promote(DTYPE_BF16, order[i]));
    }
    for (int i = 0; i < 7; i++) {
        enum dtype made = i == 0 ? DTYPE_I8 : i == 1 ? DTYPE_I32 : order[i]; /* of two bytes: there is no int16 */
        assert_int_equal(dtype_promote(DTYPE_I8, order[i]), made);
        assert_int_equal(dtype_promote(order[i], DTYPE_I8), made);
    }
    assert_true(dtype_can_cast(DTYPE_I64, DTYPE_U8) && dtype_can_cast(DTYPE_F64, DTYPE_F16));
    assert_true(dtype_can_cast(DTYPE_I8, DTYPE_U8) && dtype_can_cast(DTYPE_U8, DTYPE_I8));
    assert_false(dtype_can_cast(DTYPE_F16, DTYPE_I64) || dtype_can_cast(DTYPE_U8, DTYPE_BOOL));
}

static void
a_text_grows_and_is_never_null(void **state)
{
    struct str str = { 0 };
    assert_string_equal(str_text(&str), "");
    assert_true(str_ok(&str));
    str_add(&str, "");
    assert_non_null(str.text);
    str_add(&str, "rank ");
    str_addf(&str, "%d of %s", 3, "four");
    assert_string_equal(str_text(&str), "rank 3 of four");
    assert_int_equal(str.len, strlen("rank 3 of four"));
    for (int i = 0; i < 1000; i++)
        str_addf(&str, "%04d", i);
    assert_int_equal(str.len, 14 + 4000);
    assert_string_equal(str.text + str.len - 8, "09980999");
    size_t room = str.room;
    str_clear(&str);
    assert_string_equal(str_text(&str), "");
    assert_int_equal(str.room, room);
    str_add_bytes(&str, "a\0b", 3);
    assert_int_equal(str.len, 3);
    assert_memory_equal(str.text, "a\0b", 4);
    str_free(&str);
    assert_null(str.text);
    str_free(&str);
}

static void
a_format_as_long_as_the_room_is_not_cut(void **state)
{
    char word[200];
    memset(word, 'x', sizeof word);
    for (int length = 0; length < 199; length++) {
        struct str str = { 0 };
        word[length] = '\0';
        str_addf(&str, "%s", word);
        str_addf(&str, "%s", word);
        assert_int_equal(str.len, 2 * length);
        assert_int_equal(strlen(str_text(&str)), 2 * length);
        str_free(&str);
        word[length] = 'x';
    }
}

static void
a_text_too_long_for_memory_is_broken_and_stays_usable(void **state)
{
    struct str str = { 0 };
    str_add(&str, "kept");
    str_add_bytes(&str, "x", PTRDIFF_MAX);
    assert_false(str_ok(&str));
    str_add(&str, " not added");
    assert_string_equal(str_text(&str), "kept");
    str_clear(&str);
    assert_true(str_ok(&str));
    str_free(&str);
}

static void
an_array_grows_in_powers_and_keeps_its_items(void **state)
{
    int *items = NULL;
    size_t room = 0, grown = 0;
    for (int i = 0; i < 10000; i++) {
        size_t before = room;
        assert_true(vec_room(&items, &room, (size_t)i + 1, sizeof *items));
        grown += room != before;
        items[i] = i;
    }
    assert_in_range(grown, 1, 16);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(items[i], i);
    int *old = items;
    size_t old_room = room;
    assert_false(vec_room(&items, &room, SIZE_MAX / 2, sizeof *items));
    assert_false(vec_room(&items, &room, SIZE_MAX, 1));
    assert_ptr_equal(items, old);
    assert_int_equal(room, old_room);
    assert_true(vec_room(&items, &room, 3, sizeof *items));
    assert_int_equal(room, old_room);
    assert_int_equal(countof(((int[]){ 1, 2, 3 })), 3);
    free(items);
}

static void
a_map_finds_what_was_set_and_walks_in_that_order(void **state)
{
    struct map map = { 0 };
    uint64_t value = 7;
    assert_false(map_get(&map, 1, &value));
    assert_false(map_get_text(&map, "one", NULL));
    assert_false(map_remove(&map, 1));
    assert_int_equal(value, 7);
    char key[16];
    for (uint64_t i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key %d", (int)i);
        assert_true(map_set_text(&map, key, i));
        assert_true(map_set(&map, i << 32, i + 1));
    }
    memset(key, 0, sizeof key); /* keys are copies */
    assert_int_equal(map.count, 10000);
    for (uint64_t i = 0; i < 5000; i++) {
        char name[16];
        snprintf(name, sizeof name, "key %d", (int)i);
        assert_true(map_get_text(&map, name, &value));
        assert_int_equal(value, i);
        assert_true(map_get(&map, i << 32, &value));
        assert_int_equal(value, i + 1);
        assert_string_equal(map.entries[2 * i].text, name);
        assert_int_equal(map.entries[2 * i + 1].number, i << 32);
    }
    assert_true(map_set_text(&map, "key 0", 99));
    assert_true(map_get_text(&map, "key 0", &value));
    assert_int_equal(value, 99);
    assert_int_equal(map.count, 10000);
    map_free(&map);
    assert_int_equal(map.count, 0);
    map_free(&map);
}

static void
a_number_is_never_a_text(void **state)
{
    struct map map = { 0 };
    uint64_t value;
    assert_true(map_set(&map, 0, 1));
    assert_true(map_set_text(&map, "", 2));
    assert_true(map_set_text(&map, "0", 3));
    assert_true(map_get(&map, 0, &value));
    assert_int_equal(value, 1);
    assert_true(map_get_text(&map, "", &value));
    assert_int_equal(value, 2);
    assert_true(map_remove(&map, 0));
    assert_false(map_get(&map, 0, NULL));
    assert_true(map_get_text(&map, "", NULL));
    map_free(&map);
}

/* Against a plain array that does the same, with keys that crowd into few slots. */
static void
removing_closes_up_and_loses_nobody(void **state)
{
    struct map map = { 0 };
    uint64_t order[64], seed = 1;
    size_t count = 0;
    for (int step = 0; step < 20000; step++) {
        uint64_t key = splitmix(&seed) % 64 * 16, value;
        size_t at = 0;
        while (at < count && order[at] != key)
            at++;
        assert_int_equal(map_get(&map, key, &value), at < count);
        if (at < count) {
            assert_int_equal(value, key + 1);
            assert_true(map_remove(&map, key));
            memmove(&order[at], &order[at + 1], (--count - at) * sizeof *order);
        } else {
            assert_true(map_set(&map, key, key + 1));
            order[count++] = key;
        }
        assert_int_equal(map.count, count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(map.entries[i].number, order[i]);
    }
    map_free(&map);
}

static void
the_hash_is_fnv_and_goes_on_from_a_seed(void **state)
{
    assert_true(hash_bytes(0, "", 0) == 0xcbf29ce484222325u);
    assert_true(hash_bytes(0, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(hash_bytes(0, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(hash_bytes(hash_bytes(0, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

static void
an_arena_gives_zeroed_aligned_places_that_do_not_overlap(void **state)
{
    struct arena arena = { 0 };
    uint64_t seed = 5;
    unsigned char *place[500];
    size_t size[500];
    for (int i = 0; i < 500; i++) {
        size[i] = splitmix(&seed) % (i % 50 == 0 ? 100000 : 300);
        place[i] = arena_take(&arena, size[i]);
        assert_non_null(place[i]);
        assert_int_equal((uintptr_t)place[i] % 16, 0);
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(place[i][j], 0);
        memset(place[i], i, size[i]);
    }
    for (int i = 0; i < 500; i++) {
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(place[i][j], i & 255);
    }
    assert_ptr_not_equal(arena_take(&arena, 0), arena_take(&arena, 0));
    assert_string_equal(arena_text(&arena, "a copy"), "a copy");
    assert_null(arena_take(&arena, SIZE_MAX));
    assert_non_null(arena_take(&arena, 1));
    arena_free(&arena);
    assert_null(arena.block);
    arena_free(&arena);
}

static void
numbers_are_read_little_endian(void **state)
{
    static const unsigned char bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255 };
    struct reader reader = reader_of(bytes, sizeof bytes);
    assert_int_equal(read_u8(&reader), 1);
    assert_int_equal(read_u16(&reader), 0x0302);
    assert_int_equal(read_u32(&reader), 0x07060504);
    assert_true(read_u64(&reader) == 0x0f0e0d0c0b0a0908u);
    assert_false(reader.broken);
    assert_int_equal(read_u16(&reader), 0);
    assert_true(reader.broken);
    assert_int_equal(read_u8(&reader), 0); /* one byte is left, but broken stays broken */
    assert_null(read_bytes(&reader, 0));
}

/* One record with everything in it, cut at each byte: every cut breaks, no cut reads past its end. */
static void
a_truncated_record_is_broken_wherever_it_is_cut(void **state)
{
    static const unsigned char record[] = "\x05\0\0\0hello\0" "\x2a" "\x01\x02" "\0\0\0\0\0" "abc";
    size_t whole = sizeof record - 1;
    for (size_t size = 0; size <= whole; size++) {
        unsigned char *cut = malloc(size > 0 ? size : 1); /* exact, so that a sanitizer sees an overrun */
        assert_non_null(cut);
        memcpy(cut, record, size);
        struct reader reader = reader_of(cut, size);
        const char *hello = read_text(&reader);
        assert_string_equal(hello, size >= 10 ? "hello" : "");
        assert_int_equal(read_u8(&reader), size >= 11 ? 42 : 0);
        assert_int_equal(read_u16(&reader), size >= 13 ? 0x0201 : 0);
        assert_string_equal(read_text(&reader), "");
        const void *tail = read_bytes(&reader, 3);
        assert_int_equal(tail != NULL, size == whole);
        assert_int_equal(reader.broken, size != whole);
        free(cut);
    }
}

static void
texts_that_lie_about_their_length_are_broken(void **state)
{
    static const char long_one[] = "\xff\xff\xff\xff" "abc";
    static const char no_end[] = "\x03\0\0\0" "abcd";
    static const char two_ends[] = "\x03\0\0\0" "a\0c";
    struct reader reader = reader_of(long_one, sizeof long_one);
    assert_string_equal(read_text(&reader), "");
    assert_true(reader.broken);
    reader = reader_of(no_end, sizeof no_end);
    assert_string_equal(read_text(&reader), "");
    assert_true(reader.broken);
    reader = reader_of(two_ends, sizeof two_ends);
    assert_string_equal(read_text(&reader), "");
    assert_true(reader.broken);
    reader = reader_of("ab", 2);
    assert_non_null(read_bytes(&reader, 2));
    assert_null(read_bytes(&reader, SIZE_MAX));
    reader = reader_of(NULL, 0);
    assert_non_null(read_bytes(&reader, 0));
    assert_int_equal(read_u64(&reader), 0);
}

static void
a_file_is_read_whole_or_says_why_not(void **state)
{
    char path[] = "/tmp/ringside-base-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    char text[10000];
    memset(text, 'r', sizeof text);
    assert_int_equal(write(file, text, sizeof text), sizeof text);
    close(file);

    size_t size = 0;
    const char *why = NULL;
    char *read = file_read(path, sizeof text, &size, &why);
    assert_non_null(read);
    assert_int_equal(size, sizeof text);
    assert_memory_equal(read, text, size);
    assert_int_equal(read[size], '\0');
    free(read);
    assert_null(file_read(path, sizeof text - 1, &size, &why));
    assert_string_equal(why, "too large");
    assert_int_equal(truncate(path, 70000), 0);
    assert_null(file_read(path, 64 << 10, &size, &why));
    assert_string_equal(why, "larger than 64 KiB");
    assert_int_equal(truncate(path, 0), 0);
    read = file_read(path, 0, &size, &why);
    assert_non_null(read);
    assert_int_equal(size, 0);
    free(read);
    unlink(path);

    assert_null(file_read(path, 100, &size, &why));
    assert_string_equal(why, "no such file");
    assert_null(file_read("/", 100, &size, &why));
    assert_string_equal(why, "is a directory");
    assert_null(file_read("/dev/zero", 100000, &size, &why)); /* never ends */
    assert_string_equal(why, "is not a regular file");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_know_their_size_and_name),
        cmocka_unit_test(sixteen_bit_floats_round_to_the_nearest_at_every_step),
        cmocka_unit_test(fractions_become_integers_without_a_trap),
        cmocka_unit_test(elements_are_read_as_they_were_put),
        cmocka_unit_test(two_types_make_the_higher_one),
        cmocka_unit_test(a_text_grows_and_is_never_null),
        cmocka_unit_test(a_format_as_long_as_the_room_is_not_cut),
        cmocka_unit_test(a_text_too_long_for_memory_is_broken_and_stays_usable),
        cmocka_unit_test(an_array_grows_in_powers_and_keeps_its_items),
        cmocka_unit_test(a_map_finds_what_was_set_and_walks_in_that_order),
        cmocka_unit_test(a_number_is_never_a_text),
        cmocka_unit_test(removing_closes_up_and_loses_nobody),
        cmocka_unit_test(the_hash_is_fnv_and_goes_on_from_a_seed),
        cmocka_unit_test(an_arena_gives_zeroed_aligned_places_that_do_not_overlap),
        cmocka_unit_test(numbers_are_read_little_endian),
        cmocka_unit_test(a_truncated_record_is_broken_wherever_it_is_cut),
        cmocka_unit_test(texts_that_lie_about_their_length_are_broken),
        cmocka_unit_test(a_file_is_read_whole_or_says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
