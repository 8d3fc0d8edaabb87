/* The caching allocator keeps PyTorch's rules: sequences of requests whose segments and blocks were worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/vec.h"
#include "device/caching.h"
#include "sched/account.h"
#include "sched/sched.h"

enum { KIB = 1024, MIB = 1024 * KIB, HELD = 16 };

struct fixture { struct sched *sched; struct cache *cache; };

static int
set_up(void **state)
{
    static struct fixture fixture;
    char why[256];
    const struct sched_options options = { .executor = EXECUTOR_STEPPED, .memory_limit = 256 * MIB };
    fixture.sched = sched_new(&options, why, sizeof why);
    assert_non_null(fixture.sched);
    fixture.cache = cache_new(fixture.sched, 128 * MIB, NULL);
    assert_non_null(fixture.cache);
    *state = &fixture;
    return 0;
}

/* What the cache had of the run's account is given back to the last byte. */
static int
tear_down(void **state)
{
    struct fixture *fixture = *state;
    cache_free(fixture->cache);
    assert_int_equal(account_taken(fixture->sched), 0);
    sched_free(fixture->sched);
    return 0;
}

static enum cache_answer
try_take(struct cache *cache, int stream, size_t bytes, struct cache_block **block)
{
    return cache_take(cache, &(struct cache_request){ .bytes = bytes, .stream = stream }, block);
}

static struct cache_block *
take(struct cache *cache, int stream, size_t bytes)
{
    struct cache_block *block;
    assert_int_equal(try_take(cache, stream, bytes, &block), CACHE_TAKEN);
    return block;
}

/* ---- sequences worked out by hand ---- */

/* Takes `amount` bytes on `stream` as the next block (from 0), or gives block `amount` back, or releases. Then these
 * hold: bytes in blocks and in segments, and the free bytes beside blocks (inactive_split). */
struct move { int act; size_t amount; int stream; uint64_t allocated, reserved, split; };
enum { END, TAKE, GIVE, RELEASE };
struct sequence { const char *rule; struct move moves[14]; };

static const struct sequence sequences[] = {
    { "sizes round up to 512 bytes, and one segment of 2 MiB serves small ones",
      { { TAKE, 1, 0, 512, 2 * MIB, 2 * MIB - 512 },
        { TAKE, 512, 0, 1024, 2 * MIB, 2 * MIB - 1024 },
        { TAKE, 513, 0, 2048, 2 * MIB, 2 * MIB - 2048 },
        { TAKE, 4, 0, 2560, 2 * MIB, 2 * MIB - 2560 } } },
    { "1 MiB is small: two fill a segment without a rest, the third takes another",
      { { TAKE, MIB, 0, MIB, 2 * MIB, MIB },
        { TAKE, MIB - 511, 0, 2 * MIB, 2 * MIB, 0 },
        { TAKE, MIB, 0, 3 * MIB, 4 * MIB, MIB } } },
    { "a byte above 1 MiB is large: 20 MiB",
      { { TAKE, MIB + 1, 0, MIB + 512, 20 * MIB, 19 * MIB - 512 } } },
    { "below 10 MiB from 20 MiB; a rest of 512 bytes stays with the second block",
      { { TAKE, 10 * MIB - 512, 0, 10 * MIB - 512, 20 * MIB, 10 * MIB + 512 },
        { TAKE, 10 * MIB, 0, 20 * MIB, 20 * MIB, 0 },
        { GIVE, 0, 0, 10 * MIB + 512, 20 * MIB, 10 * MIB - 512 } } },
    { "10 MiB at first: 10 MiB; one byte more: 12 MiB, and the rest is too small to part with",
      { { TAKE, 10 * MIB, 0, 10 * MIB, 10 * MIB, 0 },
        { TAKE, 11 * MIB + 1, 0, 22 * MIB, 22 * MIB, 0 } } },
    { "a large rest of 1 MiB stays with its block, of 1 MiB and 512 bytes it does not",
      { { TAKE, 11 * MIB, 0, 12 * MIB, 12 * MIB, 0 },
        { TAKE, 11 * MIB - 512, 0, 23 * MIB - 512, 24 * MIB, MIB + 512 } } },
    { "a small rest of 512 bytes is parted with",
      { { TAKE, MIB, 0, MIB, 2 * MIB, MIB },
        { TAKE, MIB - 512, 0, 2 * MIB - 512, 2 * MIB, 512 },
        { TAKE, 100, 0, 2 * MIB, 2 * MIB, 0 } } },
    { "the smallest free block that is large enough is taken",
      { { TAKE, 4096, 0, 4096, 2 * MIB, 2 * MIB - 4096 },
        { TAKE, 512, 0, 4608, 2 * MIB, 2 * MIB - 4608 },
        { TAKE, 2048, 0, 6656, 2 * MIB, 2 * MIB - 6656 },
        { TAKE, 512, 0, 7168, 2 * MIB, 2 * MIB - 7168 },
        { GIVE, 0, 0, 3072, 2 * MIB, 2 * MIB - 3072 },
        { GIVE, 2, 0, 1024, 2 * MIB, 2 * MIB - 1024 },
        { TAKE, 1536, 0, 2560, 2 * MIB, 2 * MIB - 2560 },
        { TAKE, 3000, 0, 5632, 2 * MIB, 2 * MIB - 5632 } } },
    { "each stream has segments of its own",
      { { TAKE, 512, 0, 512, 2 * MIB, 2 * MIB - 512 },
        { TAKE, 512, 1, 1024, 4 * MIB, 4 * MIB - 1024 },
        { GIVE, 0, 0, 512, 4 * MIB, 2 * MIB - 512 },
        { TAKE, 512, 1, 1024, 4 * MIB, 2 * MIB - 1024 },
        { TAKE, 1024, 0, 2048, 4 * MIB, 4 * MIB - 2048 } } },
    { "what is given joins its free neighbours, and a whole segment is no rest",
      { { TAKE, 512, 0, 512, 2 * MIB, 2 * MIB - 512 },
        { TAKE, 512, 0, 1024, 2 * MIB, 2 * MIB - 1024 },
        { TAKE, 512, 0, 1536, 2 * MIB, 2 * MIB - 1536 },
        { GIVE, 0, 0, 1024, 2 * MIB, 2 * MIB - 1024 },
        { GIVE, 2, 0, 512, 2 * MIB, 2 * MIB - 512 },
        { RELEASE, 0, 0, 512, 2 * MIB, 2 * MIB - 512 },
        { GIVE, 1, 0, 0, 2 * MIB, 0 },
        { TAKE, MIB, 0, MIB, 2 * MIB, MIB },
        { GIVE, 3, 0, 0, 2 * MIB, 0 },
        { RELEASE, 0, 0, 0, 0, 0 } } },
    { "only segments without a block go back to the system",
      { { TAKE, 30 * MIB, 0, 30 * MIB, 30 * MIB, 0 },
        { TAKE, 3 * MIB, 0, 33 * MIB, 50 * MIB, 17 * MIB },
        { GIVE, 0, 0, 3 * MIB, 50 * MIB, 17 * MIB },
        { RELEASE, 0, 0, 3 * MIB, 20 * MIB, 17 * MIB },
        { TAKE, 30 * MIB, 0, 33 * MIB, 50 * MIB, 17 * MIB } } },
    { "a freed segment of 30 MiB serves 12 MiB, the rest serves 2 MiB",
      { { TAKE, 30 * MIB, 0, 30 * MIB, 30 * MIB, 0 },
        { GIVE, 0, 0, 0, 30 * MIB, 0 },
        { TAKE, 12 * MIB, 0, 12 * MIB, 30 * MIB, 18 * MIB },
        { TAKE, 2 * MIB, 0, 14 * MIB, 30 * MIB, 16 * MIB } } },
    { "no bytes need no block",
      { { TAKE, 0, 0, 0, 0, 0 } } },
};

static void
check_move(struct cache *cache, const struct sequence *sequence, int number, const struct move *move)
{
    struct cache_stats stats = cache_stats(cache);
    uint64_t split = stats.of[STAT_INACTIVE_SPLIT_BYTES][CACHE_POOLS].current;
    if (cache_allocated(cache) != move->allocated || cache_reserved(cache) != move->reserved || split != move->split)
        fail_msg("%s: after move %d %llu, %llu, %llu bytes are allocated, reserved, split off; not %llu, %llu, %llu",
                 sequence->rule, number, (unsigned long long)cache_allocated(cache),
                 (unsigned long long)cache_reserved(cache), (unsigned long long)split,
                 (unsigned long long)move->allocated, (unsigned long long)move->reserved,
                 (unsigned long long)move->split);
}

static void
blocks_are_those_of_the_rules(void **state)
{
    (void)state;
    for (size_t s = 0; s < countof(sequences); s++) {
        struct fixture     *own;
        struct cache_block *held[HELD] = { 0 };
        int                 count = 0;
        set_up((void **)&own);
        for (int i = 0; sequences[s].moves[i].act != END; i++) {
            const struct move *move = &sequences[s].moves[i];
            if (move->act == TAKE)
                held[count++] = take(own->cache, move->stream, move->amount);
            else if (move->act == GIVE)
                cache_give(own->cache, held[move->amount], false);
            else
                cache_release(own->cache);
            check_move(own->cache, &sequences[s], i, move);
        }
        tear_down((void **)&own);
    }
}

/* ---- where blocks lie ---- */

static void
the_lowest_of_equals_in_the_oldest_segment_is_taken(void **state)
{
    struct fixture     *fixture = *state;
    struct cache_block *a[4], *b[4];
    for (int i = 0; i < 4; i++)
        a[i] = take(fixture->cache, 0, MIB / 2);
    for (int i = 0; i < 4; i++)
        b[i] = take(fixture->cache, 0, MIB / 2);
    char *low = block_data(a[0]);
    assert_ptr_equal(block_data(a[3]), low + 3 * MIB / 2);
    void *wanted[] = { block_data(a[1]), block_data(a[3]), block_data(b[1]) };
    cache_give(fixture->cache, b[1], false);
    cache_give(fixture->cache, a[3], false);
    cache_give(fixture->cache, a[1], false);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(block_data(take(fixture->cache, 0, MIB / 2)), wanted[i]);
}

/* A thousand blocks, given in an order that has nothing to do with theirs, are one free block again. */
static void
many_blocks_become_one_again(void **state)
{
    enum { MANY = 1000 };
    struct fixture     *fixture = *state;
    struct cache_block *blocks[MANY];
    for (int i = 0; i < MANY; i++)
        blocks[i] = take(fixture->cache, 0, (size_t)(i % 7 + 1) * 500);
    for (int i = 0; i < MANY; i++)
        cache_give(fixture->cache, blocks[i * 379 % MANY], false);
    struct cache_stats stats = cache_stats(fixture->cache);
    assert_int_equal(stats.of[STAT_ALLOCATION][CACHE_SMALL].allocated, MANY);
    assert_int_equal(stats.of[STAT_ALLOCATION][CACHE_SMALL].freed, MANY);
    assert_int_equal(stats.of[STAT_INACTIVE_SPLIT][CACHE_POOLS].current, 0);
    assert_int_equal(cache_look(fixture->cache, NULL, 0), stats.of[STAT_SEGMENT][CACHE_POOLS].current);
    assert_int_equal(cache_release(fixture->cache), stats.of[STAT_RESERVED_BYTES][CACHE_POOLS].current);
}

/* ---- streams ---- */

static void
a_recorded_stream_is_waited_for(void **state)
{
    struct fixture        *fixture = *state;
    struct stream_progress other = { .launched = 3, .done = 1 };
    struct cache_block    *block = take(fixture->cache, 0, MIB);
    void                  *data  = block_data(block);
    take(fixture->cache, 0, MIB);
    assert_true(cache_record(fixture->cache, block, 7, &other));
    assert_true(cache_record(fixture->cache, block, 7, &other));
    other.launched = 5; /* the moment that counts is when it is given */
    cache_give(fixture->cache, block, false);
    struct cache_stats stats = cache_stats(fixture->cache);
    assert_int_equal(cache_allocated(fixture->cache), MIB);
    assert_int_equal(stats.of[STAT_ACTIVE_BYTES][CACHE_POOLS].current, 2 * MIB);
    other.launched = 9;
    other.done     = 4;
    assert_ptr_not_equal(block_data(take(fixture->cache, 0, MIB)), data);
    other.done     = 5;
    assert_ptr_equal(block_data(take(fixture->cache, 0, MIB)), data);
    stats = cache_stats(fixture->cache);
    assert_int_equal(stats.of[STAT_ACTIVE_BYTES][CACHE_POOLS].current, 3 * MIB);
    assert_int_equal(cache_reserved(fixture->cache), 4 * MIB);
}

static void
its_own_stream_need_not_be_waited_for(void **state)
{
    struct fixture        *fixture = *state;
    struct stream_progress own   = { .launched = 3 };
    struct cache_block    *block = take(fixture->cache, 4, MIB);
    void                  *data  = block_data(block);
    assert_true(cache_record(fixture->cache, block, 4, &own));
    cache_give(fixture->cache, block, true);
    assert_ptr_equal(block_data(take(fixture->cache, 4, MIB)), data);
}

/* ---- limits ---- */

static void
a_full_device_refuses_until_segments_go_back(void **state)
{
    struct fixture     *fixture = *state;
    struct cache_block *block = take(fixture->cache, 0, 60 * MIB), *more;
    take(fixture->cache, 0, 60 * MIB);
    assert_int_equal(try_take(fixture->cache, 0, 10 * MIB, &more), CACHE_FULL);
    assert_null(more);
    take(fixture->cache, 0, 5); /* 2 MiB still fit */
    cache_give(fixture->cache, block, false);
    assert_int_equal(try_take(fixture->cache, 1, 10 * MIB, &more), CACHE_FULL); /* another stream's */
    assert_int_equal(cache_release(fixture->cache), 60 * MIB);
    struct cache_request again = { .bytes = 10 * MIB, .stream = 1, .again = true };
    assert_int_equal(cache_take(fixture->cache, &again, &more), CACHE_TAKEN);
    cache_note_full(fixture->cache);
    assert_int_equal(cache_stats(fixture->cache).retries, 1);
    assert_int_equal(cache_stats(fixture->cache).ooms, 1);
    assert_int_equal(try_take(fixture->cache, 0, SIZE_MAX, &more), CACHE_FULL);
    assert_int_equal(try_take(fixture->cache, 0, SIZE_MAX / 2 - 3, &more), CACHE_FULL);
}

/* The run pays for what blocks reach, in steps of 64 KiB, not for what a segment reserves. */
static void
the_account_is_charged_as_far_as_blocks_reach(void **state)
{
    struct fixture     *fixture = *state;
    struct cache_block *small = take(fixture->cache, 0, 1), *large = take(fixture->cache, 0, 3 * MIB), *more;
    assert_int_equal(cache_reserved(fixture->cache), 22 * MIB);
    assert_in_range(account_taken(fixture->sched), 3 * MIB + 64 * KIB, 3 * MIB + 128 * KIB);
    size_t before = account_taken(fixture->sched);
    cache_give(fixture->cache, large, false);
    cache_give(fixture->cache, small, false);
    assert_int_equal(account_taken(fixture->sched), before);
    take(fixture->cache, 0, 3 * MIB);
    assert_int_equal(account_taken(fixture->sched), before);
    take(fixture->cache, 0, 1);
    cache_set_limit(fixture->cache, (uint64_t)1 << 40);
    assert_int_equal(try_take(fixture->cache, 0, 256 * MIB, &more), CACHE_REFUSED);
    assert_int_equal(cache_reserved(fixture->cache), 22 * MIB);
}

/* ---- questions ---- */

static void
a_look_shows_each_block_and_who_holds_it(void **state)
{
    struct fixture      *fixture = *state;
    struct cache_view    views[8];
    struct cache_request request = { .bytes = 1000, .stream = 2,
                                     .holder = { .storage = 7, .line = 12, .module = "Linear" } };
    struct cache_block  *block;
    assert_int_equal(cache_take(fixture->cache, &request, &block), CACHE_TAKEN);
    take(fixture->cache, 0, 4 * MIB);
    assert_int_equal(cache_look(fixture->cache, views, countof(views)), 4);
    assert_int_equal(views[0].bytes, 1024);
    assert_int_equal(views[0].requested, 1000);
    assert_int_equal(views[0].stream, 2);
    assert_int_equal(views[0].holder.line, 12);
    assert_string_equal(views[0].holder.module, "Linear");
    assert_int_equal(views[0].state, BLOCK_HELD);
    assert_int_equal(views[1].state, BLOCK_FREE);
    assert_int_equal(views[1].offset, 1024);
    assert_int_equal(views[1].bytes, 2 * MIB - 1024);
    assert_int_equal(views[2].segment, 2);
    assert_int_equal(views[2].segment_bytes, 20 * MIB);
    assert_int_equal(views[2].pool, CACHE_LARGE);
    assert_int_equal(views[3].bytes, 16 * MIB);
    assert_true(views[2].address >= views[0].address + 2 * MIB);
}

static void
a_change_of_segments_is_told_once(void **state)
{
    struct fixture     *fixture = *state;
    struct cache_change change;
    assert_false(cache_changed(fixture->cache, &change));
    struct cache_block *block = take(fixture->cache, 0, 1);
    assert_true(cache_changed(fixture->cache, &change));
    assert_int_equal(change.taken, 1);
    assert_int_equal(change.bytes, 2 * MIB);
    assert_false(cache_changed(fixture->cache, &change));
    cache_give(fixture->cache, block, false);
    cache_release(fixture->cache);
    assert_true(cache_changed(fixture->cache, &change));
    assert_int_equal(change.given, 1);
    assert_int_equal(change.bytes, -2 * MIB);
    assert_int_equal(change.reserved, 0);
}

static void
peaks_are_kept_until_they_are_reset(void **state)
{
    struct fixture *fixture = *state;
    cache_give(fixture->cache, take(fixture->cache, 0, 5000), false);
    struct cache_count bytes = cache_stats(fixture->cache).of[STAT_ALLOCATED_BYTES][CACHE_POOLS];
    assert_int_equal(bytes.current, 0);
    assert_int_equal(bytes.peak, 5120);
    assert_int_equal(bytes.allocated, 5120);
    assert_int_equal(bytes.freed, 5120);
    cache_reset_peak(fixture->cache);
    bytes = cache_stats(fixture->cache).of[STAT_ALLOCATED_BYTES][CACHE_POOLS];
    assert_int_equal(bytes.peak, 0);
    assert_int_equal(bytes.allocated, 5120);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_those_of_the_rules),
        cmocka_unit_test_setup_teardown(the_lowest_of_equals_in_the_oldest_segment_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_blocks_become_one_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_recorded_stream_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_own_stream_need_not_be_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_device_refuses_until_segments_go_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_account_is_charged_as_far_as_blocks_reach, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_shows_each_block_and_who_holds_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_change_of_segments_is_told_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peaks_are_kept_until_they_are_reset, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
