/* PyTorch's numbers, bit for bit: the words of tests/golden/unit/rng-engine.json, and the draws, sequences and
 * permutations of tests/golden/first-light/rng.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/number.h"
#include "base/rng.h"

enum { DRAWN_ELEMENTS = 200000 };

/* What a case draws: elements of one type, as the golden file counts its bytes. */
struct drawn {
    size_t count, element;
    union {
        float   f32[DRAWN_ELEMENTS];
        double  f64[DRAWN_ELEMENTS];
        int64_t i64[DRAWN_ELEMENTS];
    };
};

static json_t *
golden(const char *path)
{
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (file == NULL)
        fail_msg("%s: %s (tests start in the project's folder)", path, error.text);
    return file;
}

static int64_t
integer_of(const json_t *value)
{
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : json_integer_value(value);
}

static bool
element_is(const struct drawn *drawn, size_t index, const json_t *value, const char *dtype)
{
    if (strcmp(dtype, "i64") == 0)
        return drawn->i64[index] == integer_of(value);
    if (strcmp(dtype, "f64") == 0)
        return drawn->f64[index] == json_number_value(value);
    return drawn->f32[index] == (float)json_number_value(value);
}

static void
assert_drawn(const struct drawn *drawn, const json_t *out, const char *name)
{
    const char *dtype = json_string_value(json_object_get(out, "dtype"));
    const json_t *data = json_object_get(out, "data"), *crc = json_object_get(out, "crc32");
    const json_t *first = json_object_get(out, "first"), *last = json_object_get(out, "last");
    for (size_t i = 0; i < json_array_size(data); i++) {
        if (!element_is(drawn, i, json_array_get(data, i), dtype))
            fail_msg("%s: element %zu differs", name, i);
    }
    for (size_t i = 0; i < json_array_size(first); i++) {
        if (!element_is(drawn, i, json_array_get(first, i), dtype))
            fail_msg("%s: element %zu differs", name, i);
    }
    for (size_t i = 0, n = json_array_size(last); i < n; i++) {
        if (!element_is(drawn, drawn->count - n + i, json_array_get(last, i), dtype))
            fail_msg("%s: element %zu differs", name, drawn->count - n + i);
    }
    if (crc != NULL) {
        unsigned long sum = crc32(0, (const Bytef *)drawn->f32, (uInt)(drawn->count * drawn->element));
        if (sum != strtoul(json_string_value(crc), NULL, 16))
            fail_msg("%s: the checksum differs", name);
    }
}

static bool
is(const char *text, const char *other)
{
    return strcmp(text, other) == 0;
}

/* Fills `drawn` as `op` says; false: an op that draws in an order of its own (a layout) or is not known here. */
static bool
draw(struct generator *g, const json_t *step, const char *op, struct drawn *drawn)
{
    const json_t *args = json_object_get(step, "args");
    const char *dtype = json_string_value(json_object_get(json_object_get(step, "out"), "dtype"));
    double a = json_number_value(json_array_get(args, 0)), b = json_number_value(json_array_get(args, 1));
    size_t n = drawn->count;
    bool is_double = is(dtype, "f64");

    if (json_object_get(step, "layout") != NULL)
        return false;
    drawn->element = is(dtype, "f32") ? 4 : 8;
    if (is(op, "rand") || is(op, "uniform_")) {
        double high = is(op, "rand") ? 1 : b;
        if (is_double)
            fill_uniform_f64(g, drawn->f64, n, a, high);
        else
            fill_uniform_f32(g, drawn->f32, n, a, high);
    } else if (is(op, "randn") || is(op, "normal_")) {
        double std = is(op, "randn") ? 1 : b;
        if (is_double)
            fill_normal_f64(g, drawn->f64, n, (struct normal){ a, std, true });
        else
            fill_normal_f32(g, drawn->f32, n, (struct normal){ a, std, true });
    } else if (is(op, "randint")) {
        int64_t low = integer_of(json_array_get(args, 0)), high = integer_of(json_array_get(args, 1));
        for (size_t i = 0; i < n; i++)
            drawn->i64[i] = draw_randint(g, low, high);
    } else if (is(op, "randperm")) {
        fill_randperm(g, drawn->i64, n);
    } else if (is(op, "random_")) {
        for (size_t i = 0; i < n; i++)
            drawn->i64[i] = draw_random_i64(g);
    } else if (is(op, "bernoulli_")) {
        for (size_t i = 0; i < n; i++)
            drawn->f32[i] = draw_bernoulli(g, a) ? 1 : 0;
    } else {
        return false;
    }
    return true;
}

static uint64_t
unsigned_of(const json_t *value)
{
    return json_is_string(value) ? strtoull(json_string_value(value), NULL, 10) : (uint64_t)json_integer_value(value);
}

static void
the_words_are_the_mersenne_twisters(void **state)
{
    json_t *file = golden("tests/golden/unit/rng-engine.json"), *words = json_object_get(file, "words");
    assert_true(json_array_size(words) > 0);
    for (size_t i = 0; i < json_array_size(words); i++) {
        json_t *row = json_array_get(words, i), *first = json_object_get(row, "first");
        json_t *last = json_object_get(row, "last");
        size_t count = (size_t)json_integer_value(json_object_get(row, "count"));
        uint32_t word[2000];
        struct generator g;
        assert_true(count <= 2000);
        generator_seed(&g, unsigned_of(json_object_get(row, "seed")));
        for (size_t j = 0; j < count; j++)
            word[j] = generator_u32(&g);
        for (size_t j = 0; j < json_array_size(first); j++)
            assert_int_equal(word[j], json_integer_value(json_array_get(first, j)));
        for (size_t j = 0, n = json_array_size(last); j < n; j++)
            assert_int_equal(word[count - n + j], json_integer_value(json_array_get(last, j)));
        assert_int_equal(crc32(0, (const Bytef *)word, (uInt)(count * 4)),
                         strtoul(json_string_value(json_object_get(row, "crc32")), NULL, 16));
    }
    json_decref(file);
}

static void
a_block_of_philox_is_worked_out_from_where_it_stands(void **state)
{
    json_t *file = golden("tests/golden/unit/rng-engine.json"), *blocks = json_object_get(file, "philox");
    assert_true(json_array_size(blocks) > 0);
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        json_t *row = json_array_get(blocks, i), *words = json_object_get(row, "words");
        struct philox at = { .seed = unsigned_of(json_object_get(row, "seed")),
                             .subsequence = unsigned_of(json_object_get(row, "subsequence")),
                             .block = unsigned_of(json_object_get(row, "block")) };
        uint32_t word[4];
        assert_int_equal(json_array_size(words), 4);
        philox_words(&at, word);
        for (size_t j = 0; j < 4; j++)
            assert_int_equal(word[j], json_integer_value(json_array_get(words, j)));
    }
    json_decref(file);
}

static uint64_t
block_of(struct generator *g, int device)
{
    struct philox at;
    assert_true(generator_draws(g, device, &at));
    assert_int_equal(at.seed, g->seed);
    assert_int_equal(at.subsequence, 0);
    return at.block;
}

static void
each_device_takes_its_own_blocks_of_one_seed(void **state)
{
    struct generator g;
    generator_seed(&g, 42);
    for (uint64_t block = 0; block < 3; block++)
        assert_int_equal(block_of(&g, 0), block);
    assert_int_equal(block_of(&g, 1), 0);
    assert_int_equal(block_of(&g, GENERATOR_DEVICES), 0);      /* its place is taken: it finds another */
    assert_int_equal(block_of(&g, GENERATOR_DEVICES), 1);
    struct generator copy = g;
    assert_int_equal(block_of(&copy, 0), 3);
    assert_int_equal(block_of(&g, 0), 3);
    assert_int_equal(generator_u32(&g), 1608637542);           /* the words of the CPU are where they were */
    generator_seed(&g, 42);
    assert_int_equal(block_of(&g, 0), 0);
}

static void
no_more_devices_draw_than_there_are_places(void **state)
{
    struct generator g;
    struct philox    at;
    generator_seed(&g, 1);
    for (int device = 0; device < GENERATOR_DEVICES; device++)
        assert_int_equal(block_of(&g, 3 * device), 0);
    assert_false(generator_draws(&g, 1, &at));
    assert_int_equal(block_of(&g, 3), 1);
}

static void
a_state_has_the_blocks_of_whichever_device_has_drawn_most(void **state)
{
    struct generator g, other;
    unsigned char    before[5056], after[5056];
    generator_seed(&g, 9);
    generator_state(&g, before);
    block_of(&g, 2), block_of(&g, 5), block_of(&g, 5);
    generator_state(&g, after);
    assert_memory_not_equal(before, after, sizeof after);
    generator_seed(&other, 1);
    assert_true(generator_set_state(&other, after));
    assert_int_equal(block_of(&other, 5), 2);
    assert_int_equal(block_of(&other, 2), 2);
    assert_true(generator_set_state(&other, before));
    assert_int_equal(block_of(&other, 5), 0);
}

static void
the_file_of_words_holds_nothing_that_is_not_read(void **state)
{
    json_t *file = golden("tests/golden/unit/rng-engine.json"), *rows;
    const char *section;
    json_object_foreach(file, section, rows) {
        if (!is(section, "header") && !is(section, "words") && !is(section, "philox"))
            fail_msg("what is \"%s\"?", section);
    }
    json_decref(file);
}

static void
the_draws_are_pytorchs(void **state)
{
    json_t *file = golden("tests/golden/first-light/rng.json"), *draws = json_object_get(file, "draws");
    struct drawn *drawn = malloc(sizeof *drawn);
    assert_non_null(drawn);
    assert_true(json_array_size(draws) > 0);
    for (size_t i = 0; i < json_array_size(draws); i++) {
        json_t *row = json_array_get(draws, i);
        const char *op = json_string_value(json_object_get(row, "op"));
        struct generator g;
        char name[64];
        snprintf(name, sizeof name, "draws[%zu] (%s)", i, op);
        drawn->count = (size_t)json_integer_value(json_object_get(row, "n"));
        assert_true(drawn->count <= DRAWN_ELEMENTS);
        generator_seed(&g, (uint64_t)json_integer_value(json_object_get(row, "seed")));
        if (!draw(&g, row, op, drawn))
            fail_msg("%s: not understood", name);
        assert_drawn(drawn, json_object_get(row, "out"), name);
    }
    free(drawn);
    json_decref(file);
}

/* Steps with a layout are left to the tensors' tests: the order inside a tensor is theirs. */
static void
sequences_of_draws_share_one_generator(void **state)
{
    json_t *file = golden("tests/golden/first-light/rng.json"), *all = json_object_get(file, "sequences");
    struct drawn *drawn = malloc(sizeof *drawn);
    assert_non_null(drawn);
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *row = json_array_get(all, i), *steps = json_object_get(row, "steps");
        struct generator g;
        generator_seed(&g, (uint64_t)json_integer_value(json_object_get(row, "seed")));
        for (size_t j = 0; j < json_array_size(steps); j++) {
            json_t *step = json_array_get(steps, j), *shape = json_object_get(step, "shape");
            const char *op = json_string_value(json_object_get(step, "op"));
            if (is(op, "manual_seed")) {
                generator_seed(&g, (uint64_t)integer_of(json_array_get(json_object_get(step, "args"), 0)));
                continue;
            }
            drawn->count = 1;
            for (size_t k = 0; k < json_array_size(shape); k++)
                drawn->count *= (size_t)json_integer_value(json_array_get(shape, k));
            if (!draw(&g, step, op, drawn))
                break;
            assert_drawn(drawn, json_object_get(step, "out"), json_string_value(json_object_get(row, "name")));
        }
    }
    free(drawn);
    json_decref(file);
}

static void
permutations_are_pytorchs_and_use_one_word_less_than_they_are_long(void **state)
{
    json_t *file = golden("tests/golden/first-light/rng.json"), *all = json_object_get(file, "randperm");
    struct drawn *drawn = malloc(sizeof *drawn);
    assert_non_null(drawn);
    assert_true(json_array_size(all) > 0);
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *row = json_array_get(all, i), *after = json_object_get(row, "rand_after");
        struct generator g;
        generator_seed(&g, (uint64_t)json_integer_value(json_object_get(row, "seed")));
        drawn->count = (size_t)json_integer_value(json_object_get(row, "n"));
        assert_true(drawn->count <= DRAWN_ELEMENTS);
        assert_true(draw(&g, row, "randperm", drawn));
        assert_drawn(drawn, json_object_get(row, "out"), "randperm");
        for (size_t j = 0; j < json_array_size(after); j++)
            assert_true(generator_f32(&g) == (float)json_number_value(json_array_get(after, j)));
    }
    free(drawn);
    json_decref(file);
}

static void
a_state_that_is_set_goes_on_where_it_was_taken(void **state)
{
    unsigned char bytes[5056];
    struct generator g, other;
    float x[3], y[5], z[5];
    generator_seed(&g, 42);
    generator_state(&g, bytes);
    assert_int_equal(bytes[0], 42);
    assert_int_equal(bytes[8], 1);  /* left: a fresh seed makes its block at the first word */
    assert_int_equal(bytes[16], 0); /* next */
    fill_normal_f32(&g, x, 3, (struct normal){ 0, 1, true });
    generator_state(&g, bytes);
    assert_int_equal(bytes[16], 8);
    assert_true(generator_set_state(&other, bytes));
    assert_true(other.has_normal);
    fill_normal_f32(&g, y, 5, (struct normal){ 0, 1, true });
    fill_normal_f32(&other, z, 5, (struct normal){ 0, 1, true });
    assert_memory_equal(y, z, sizeof y);
    while (g.position != 624)
        generator_u32(&g);
    generator_state(&g, bytes);
    assert_true(generator_set_state(&other, bytes));
    assert_int_equal(generator_u32(&g), generator_u32(&other));
}

static void
bytes_that_are_no_state_change_nothing(void **state)
{
    unsigned char bytes[5056], broken[5056];
    struct generator g, before;
    generator_seed(&g, 1);
    generator_u32(&g);
    before = g;
    generator_state(&g, bytes);
    static const struct {
        size_t        at;
        unsigned char value;
    } wrong[] = { { 8, 0 }, { 9, 1 }, { 12, 0 }, { 17, 255 }, { 23, 1 }, { 28, 1 } };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(broken, bytes, sizeof broken);
        broken[wrong[i].at] = wrong[i].value;
        assert_false(generator_set_state(&g, broken));
        assert_memory_equal(&g, &before, sizeof g);
    }
}

static void
the_upper_half_of_a_seed_is_only_remembered(void **state)
{
    struct generator a, b;
    generator_seed(&a, 5);
    generator_seed(&b, ((uint64_t)1 << 32) + 5);
    assert_int_equal(generator_u64(&a), generator_u64(&b));
    assert_int_not_equal(a.seed, b.seed);
}

static void
a_strided_tensor_draws_its_normals_one_by_one(void **state)
{
    struct generator a, b;
    float x[16], y[16];
    generator_seed(&a, 3);
    generator_seed(&b, 3);
    fill_normal_f32(&a, x, 16, (struct normal){ 0, 1, false });
    fill_normal_f32(&b, y, 8, (struct normal){ 0, 1, true });
    fill_normal_f32(&b, y + 8, 8, (struct normal){ 0, 1, true });
    assert_memory_equal(x, y, sizeof x);
}

static void
narrow_draws_stay_in_their_range(void **state)
{
    struct generator g, twin;
    generator_seed(&g, 9);
    twin = g;
    for (int i = 0; i < 1000; i++) {
        int64_t whole = draw_random_f32(&g);
        assert_true(whole >= 0 && whole <= 1 << 24);
        assert_int_equal(whole, generator_u32(&twin) % ((1u << 24) + 1));
    }
    assert_int_equal(draw_random_bool(&g), generator_u32(&twin) & 1);
    assert_false(draw_bernoulli(&g, 0));
    assert_true(draw_bernoulli(&g, 1));
    assert_int_equal(draw_randint(&g, 7, 7), 7);
    assert_int_equal(draw_randint(&g, -3, -2), -3);
    int64_t wide = draw_randint(&g, INT64_MIN, INT64_MAX);
    assert_true(wide < INT64_MAX);
}

static void
a_range_takes_two_words_from_two_to_the_28_on(void **state)
{
    static const struct {
        uint64_t range;
        int      words;
    } ranges[] = { { 1, 1 }, { (1 << 28) - 1, 1 }, { 1 << 28, 2 }, { (1 << 28) + 1, 2 }, { UINT64_MAX, 2 } };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct generator g, twin;
        generator_seed(&g, i);
        twin = g;
        uint64_t word = ranges[i].words == 2 ? generator_u64(&twin) : generator_u32(&twin);
        int64_t  low = INT64_MIN, high = (int64_t)((uint64_t)low + ranges[i].range);
        assert_int_equal(draw_randint(&g, low, high), (int64_t)((uint64_t)low + word % ranges[i].range));
        assert_int_equal(g.position, ranges[i].words);
    }
}

/* Of 1 to 1 + 2^-23 half of the draws round up. */
static void
an_upper_bound_is_never_drawn(void **state)
{
    struct generator g;
    float x[100];
    double y[100];
    uint16_t half[4000];
    generator_seed(&g, 4);
    fill_uniform_f32(&g, x, 100, 1, 1 + 0x1p-23);
    fill_uniform_f64(&g, y, 100, 1, 1 + 0x1p-52);
    for (size_t i = 0; i < 100; i++)
        assert_true(x[i] == 1 && y[i] == 1);
    for (int brain = 0; brain < 2; brain++) {
        fill_uniform_half(&g, half, 4000, (struct uniform){ 0, 1 }, brain);
        for (size_t i = 0; i < 4000; i++)
            assert_true(half[i] < (brain ? 0x3f80 : 0x3c00));
    }
}

/* 33 elements take 32 words for the blocks and 16 for the rest, which is drawn over. */
static void
normals_of_16_bits_are_those_of_floats_rounded(void **state)
{
    struct generator g, twin;
    uint16_t half[33];
    float x[33];
    generator_seed(&g, 8);
    twin = g;
    fill_normal_half(&g, half, 33, (struct normal){ 0.5, 2, true }, false);
    fill_normal_f32(&twin, x, 32, (struct normal){ 0.5, 2, true });
    fill_normal_f32(&twin, x + 17, 16, (struct normal){ 0.5, 2, true });
    assert_int_equal(g.position, 48);
    for (size_t i = 0; i < 33; i++)
        assert_int_equal(half[i], half_of_float(x[i]));
}

static void
splitmix_is_the_published_one(void **state)
{
    uint64_t seed = 1234567;
    assert_true(splitmix(&seed) == 6457827717110365317u);
    assert_true(splitmix(&seed) == 3203168211198807973u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_words_are_the_mersenne_twisters),
        cmocka_unit_test(a_block_of_philox_is_worked_out_from_where_it_stands),
        cmocka_unit_test(each_device_takes_its_own_blocks_of_one_seed),
        cmocka_unit_test(no_more_devices_draw_than_there_are_places),
        cmocka_unit_test(a_state_has_the_blocks_of_whichever_device_has_drawn_most),
        cmocka_unit_test(the_file_of_words_holds_nothing_that_is_not_read),
        cmocka_unit_test(the_draws_are_pytorchs),
        cmocka_unit_test(sequences_of_draws_share_one_generator),
        cmocka_unit_test(permutations_are_pytorchs_and_use_one_word_less_than_they_are_long),
        cmocka_unit_test(a_state_that_is_set_goes_on_where_it_was_taken),
        cmocka_unit_test(bytes_that_are_no_state_change_nothing),
        cmocka_unit_test(the_upper_half_of_a_seed_is_only_remembered),
        cmocka_unit_test(a_strided_tensor_draws_its_normals_one_by_one),
        cmocka_unit_test(narrow_draws_stay_in_their_range),
        cmocka_unit_test(a_range_takes_two_words_from_two_to_the_28_on),
        cmocka_unit_test(an_upper_bound_is_never_drawn),
        cmocka_unit_test(normals_of_16_bits_are_those_of_floats_rounded),
        cmocka_unit_test(splitmix_is_the_published_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
