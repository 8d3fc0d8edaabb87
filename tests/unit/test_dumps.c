/* Dumps of the Flight Recorder: the pickle machine opcode by opcode, whose dump a file is, what only all of them say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "flight/dump.h"
#include "flight/dump_parts.h"

/* ---- pickles ---- */

/* A text literal as bytes, with the NULs in it. */
#define BYTES(text) (text), sizeof(text) - 1

static void
reads_as(const char *bytes, size_t size, const char *json)
{
    char    why[512];
    json_t *value = dump_unpickle(bytes, size, why, sizeof why);
    if (value == NULL)
        print_message("%s: %s\n", json, why);
    assert_non_null(value);
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    assert_non_null(text);
    assert_string_equal(text, json);
    free(text);
    json_decref(value);
}

static void
is_refused(const char *bytes, size_t size, const char *because)
{
    char    why[512];
    json_t *value = dump_unpickle(bytes, size, why, sizeof why);
    assert_null(value);
    if (strstr(why, because) == NULL)
        print_message("\"%s\" does not say \"%s\"\n", why, because);
    assert_non_null(strstr(why, because));
    assert_null(strchr(why, '\n'));
}

/* pickle.dumps({'a': [1, -2, 70000, 2.5, True, None], 'b': (3, 'x')}, protocol), memo and all. */
static void
plain_data_of_every_protocol_is_read(void **state)
{
    const char *json = "{\"a\":[1,-2,70000,2.5,true,null],\"b\":[3,\"x\"]}";
    reads_as(BYTES("(dp0\nVa\np1\n(lp2\nI1\naI-2\naI70000\naF2.5\naI01\naNasVb\np3\n(I3\nVx\np4\ntp5\ns."), json);
    reads_as(BYTES("}q\0(X\1\0\0\0aq\1]q\2(K\1J\xfe\xff\xff\xffJp\x11\1\0G@\4\0\0\0\0\0\0I01\nNeX\1\0\0\0bq\3(K\3"
                   "X\1\0\0\0xq\4tq\5u."), json);
    reads_as(BYTES("\x80\2}q\0(X\1\0\0\0aq\1]q\2(K\1J\xfe\xff\xff\xffJp\x11\1\0G@\4\0\0\0\0\0\0\x88NeX\1\0\0\0bq\3K\3"
                   "X\1\0\0\0xq\4\x86q\5u."), json);
    reads_as(BYTES("\x80\3}q\0(X\1\0\0\0aq\1]q\2(K\1J\xfe\xff\xff\xffJp\x11\1\0G@\4\0\0\0\0\0\0\x88NeX\1\0\0\0bq\3K\3"
                   "X\1\0\0\0xq\4\x86q\5u."), json);
    reads_as(BYTES("\x80\4\x95\x32\0\0\0\0\0\0\0}\x94(\x8c\1a\x94]\x94(K\1J\xfe\xff\xff\xffJp\x11\1\0G@\4\0\0\0\0\0\0"
                   "\x88Ne\x8c\1b\x94K\3\x8c\1x\x94\x86\x94u."), json);
    reads_as(BYTES("\x80\5\x95\x32\0\0\0\0\0\0\0}\x94(\x8c\1a\x94]\x94(K\1J\xfe\xff\xff\xffJp\x11\1\0G@\4\0\0\0\0\0\0"
                   "\x88Ne\x8c\1b\x94K\3\x8c\1x\x94\x86\x94u."), json);
}

static void
integers_of_every_width_are_read(void **state)
{
    reads_as(BYTES("K\xff."), "255");
    reads_as(BYTES("M\xff\xff."), "65535");
    reads_as(BYTES("J\0\0\0\x80."), "-2147483648");
    reads_as(BYTES("\x80\2\x8a\0."), "0");
    reads_as(BYTES("\x80\2\x8a\1\xff."), "-1");
    reads_as(BYTES("\x80\2\x8a\2\0\x80."), "-32768");
    reads_as(BYTES("\x80\2\x8a\3\xff\xff\0."), "65535");
    reads_as(BYTES("\x80\2\x8a\10\xff\xff\xff\xff\xff\xff\xff\x7f."), "9223372036854775807");
    reads_as(BYTES("\x80\2\x8a\11\xff\xff\xff\xff\xff\xff\xff\xff\0."), "9223372036854775807"); /* 2^64 - 1: the largest */
    reads_as(BYTES("\x80\2\x8a\12\0\0\0\0\0\0\0\0\0\x80."), "-9223372036854775808");
    reads_as(BYTES("\x80\2\x8b\2\0\0\0\0\1."), "256");
    reads_as(BYTES("L123456789012L\n."), "123456789012");
    reads_as(BYTES("L99999999999999999999L\n."), "9223372036854775807");
    reads_as(BYTES("I00\n."), "false");
    reads_as(BYTES("I0\n."), "0");
    reads_as(BYTES("G\x7f\xf0\0\0\0\0\0\0."), "null"); /* inf, which JSON has not */
}

static void
texts_of_every_kind_are_read(void **state)
{
    reads_as(BYTES("S'it\\'s \\x41\\n'\n."), "\"it's A\\n\"");
    reads_as(BYTES("S\"\\q\"\n."), "\"\\\\q\"");
    reads_as(BYTES("V\\u00e4\\U0001f600\xe4\n."), "\"ä😀ä\"");
    reads_as(BYTES("V\\ud8\n."), "\"\\\\ud8\"");
    reads_as(BYTES("T\2\0\0\0ab."), "\"ab\"");
    reads_as(BYTES("U\2ab."), "\"ab\"");
    reads_as(BYTES("\x80\3C\2ab."), "\"ab\"");
    reads_as(BYTES("\x80\3B\2\0\0\0ab."), "\"ab\"");
    reads_as(BYTES("\x80\4\x8d\2\0\0\0\0\0\0\0ab."), "\"ab\"");
    reads_as(BYTES("\x80\4\x8e\2\0\0\0\0\0\0\0ab."), "\"ab\"");
    reads_as(BYTES("\x80\5\x96\2\0\0\0\0\0\0\0ab."), "\"ab\"");
}

static void
the_stack_s_own_words_are_understood(void **state)
{
    reads_as(BYTES("K\1K\2" "0."), "1");
    reads_as(BYTES("(K\1K\2" "1K\3."), "3");
    reads_as(BYTES("]K\1" "2\x86" "a."), "[[1,1]]");
    reads_as(BYTES("]q\7K\1a0h\7\x85."), "[[1]]");
    reads_as(BYTES(")."), "[]");
    reads_as(BYTES("(t."), "[]");
    reads_as(BYTES("K\1\x85."), "[1]");
    reads_as(BYTES("K\1K\2K\3\x87."), "[1,2,3]");
    reads_as(BYTES("(K\1K\2d."), "{\"1\":2}");
    reads_as(BYTES("\x80\2}r\0\1\0\0" "0}(K\5j\0\1\0\0u."), "{\"5\":{}}");
}

static void
what_would_run_code_is_refused_by_its_name(void **state)
{
    is_refused(BYTES("cos\nsystem\n(S'echo'\ntR."), "wants to run code (GLOBAL os.system at byte 0)");
    is_refused(BYTES("\x80\4\x8c\2os\x8c\6system\x93."), "STACK_GLOBAL");
    is_refused(BYTES("(S'x'\nios\nsystem\n."), "INST os.system");
    is_refused(BYTES("K\1)R."), "REDUCE");
    is_refused(BYTES("K\1}b."), "BUILD");
    is_refused(BYTES("(K\1o."), "OBJ");
    is_refused(BYTES("K\1)\x81."), "NEWOBJ");
    is_refused(BYTES("K\1)}\x92."), "NEWOBJ_EX");
    is_refused(BYTES("\x82\1."), "EXT1");
    is_refused(BYTES("\x83\1\0."), "EXT2");
    is_refused(BYTES("\x84\1\0\0\0."), "EXT4");
    is_refused(BYTES("Px\n."), "PERSID");
    is_refused(BYTES("K\1Q."), "BINPERSID");
    is_refused(BYTES("\x97."), "NEXT_BUFFER");
    is_refused(BYTES("K\1\x98."), "READONLY_BUFFER");
    is_refused(BYTES("\x80\4\x8f."), "byte 2 is 0x8f"); /* a set: no dump has one */
}

static void
what_is_broken_is_refused_in_one_line(void **state)
{
    is_refused(BYTES(""), "cut short");
    is_refused(BYTES("K"), "cut short");
    is_refused(BYTES("K\1"), "cut short");
    is_refused(BYTES("X\377\377\377\377ab."), "cut short");
    is_refused(BYTES("\x80\4\x8d\377\377\377\377\377\377\377\377ab."), "cut short");
    is_refused(BYTES("\x8b\377\377\377\377\0."), "cut short");
    is_refused(BYTES("V12"), "cut short");
    is_refused(BYTES("I12"), "cut short");
    is_refused(BYTES("Ix\n."), "there is no number");
    is_refused(BYTES("F1x\n."), "there is no number");
    is_refused(BYTES("S'x\n."), "no quotes");
    is_refused(BYTES("\x80\6N."), "protocol 6");
    is_refused(BYTES("."), "with 0 values");
    is_refused(BYTES("K\1K\1."), "with 2 values");
    is_refused(BYTES("(K\1."), "not one");
    is_refused(BYTES("a."), "stack is empty");
    is_refused(BYTES("]a."), "stack is empty");
    is_refused(BYTES("](a."), "stack is empty");
    is_refused(BYTES("e."), "no mark");
    is_refused(BYTES("\x85."), "stack is empty");
    is_refused(BYTES("K\1K\2a."), "no list");
    is_refused(BYTES("]K\1K\2s."), "no dict");
    is_refused(BYTES("}]K\2s."), "neither text nor number");
    is_refused(BYTES("}(K\1u."), "no value");
    is_refused(BYTES("h\7."), "no such number");
    is_refused(BYTES("g9\n."), "no such number");
}

static void
no_value_contains_itself_and_depth_is_bounded(void **state)
{
    is_refused(BYTES("]q\0h\0a."), "contain itself");
    is_refused(BYTES("]q\0]q\1h\0a0h\0h\1a."), "contain itself"); /* a in b, then b in a */
    struct str deep = { 0 };
    for (int i = 0; i < DUMP_DEPTH; i++)
        str_add(&deep, "]");
    for (int i = 1; i < DUMP_DEPTH; i++)
        str_add(&deep, "a");
    str_add(&deep, ".");
    char    why[512];
    json_t *value = dump_unpickle(deep.text, deep.len, why, sizeof why);
    assert_non_null(value);
    json_decref(value);
    str_clear(&deep);
    for (int i = 0; i <= DUMP_DEPTH; i++)
        str_add(&deep, "]");
    for (int i = 0; i < DUMP_DEPTH; i++)
        str_add(&deep, "a");
    str_add(&deep, ".");
    is_refused(deep.text, deep.len, "more than 64 deep");
    str_free(&deep);
}

static void
more_values_than_a_dump_has_are_refused(void **state)
{
    char *many = malloc(DUMP_VALUES + 16);
    assert_non_null(many);
    memset(many, 'N', DUMP_VALUES + 16);
    is_refused(many, DUMP_VALUES + 16, "holds more than");
    memset(many, ']', DUMP_VALUES + 16);
    is_refused(many, DUMP_VALUES + 16, "holds more than");
    free(many);
}

/* ---- files ---- */

static void
a_file_s_name_says_whose_it_is(void **state)
{
    assert_int_equal(dump_rank_of_name("/tmp/nccl_trace_rank_12"), 12);
    assert_int_equal(dump_rank_of_name("trace_0"), 0);
    assert_int_equal(dump_rank_of_name("rank_3.json"), 3);
    assert_int_equal(dump_rank_of_name("r3.pickle"), 3);
    assert_int_equal(dump_rank_of_name("7"), 7);
    assert_int_equal(dump_rank_of_name("job7/trace"), -1);
    assert_int_equal(dump_rank_of_name("trace.json"), -1);
    assert_int_equal(dump_rank_of_name("trace_8192"), -1);
    assert_int_equal(dump_rank_of_name("trace_99999999999999999999"), -1);
    assert_int_equal(dump_rank_of_name(""), -1);
}

struct job { struct flight flight; struct dumps dumps; };

static bool
give(struct job *job, const char *name, const char *json)
{
    job->dumps.flight = &job->flight;
    return dump_read(&job->dumps, name, json, strlen(json), -1);
}

static void
end(struct job *job)
{
    dumps_free(&job->dumps);
    flight_free(&job->flight);
}

#define CALL(record, group, seq, name, sizes, state, retired) \
    "{\"record_id\":" #record ",\"process_group\":[\"" group "\",\"\"],\"collective_seq_id\":" #seq ",\"p2p_seq_id\":0," \
    "\"profiling_name\":\"" name "\",\"input_sizes\":" sizes ",\"output_sizes\":" sizes ",\"state\":\"" state "\"," \
    "\"retired\":" retired ",\"is_p2p\":false}"

static void
an_entry_s_fields_are_taken(void **state)
{
    struct job job = { 0 };
    assert_true(give(&job, "t_1",
        "{\"version\":\"2.4\",\"pg_config\":{\"5\":{\"name\":\"5\",\"desc\":\"tp\",\"ranks\":\"[3, 1]\"}},\"entries\":[{"
        "\"record_id\":7,\"pg_id\":2,\"process_group\":[\"5\",\"tp\"],\"collective_seq_id\":4,\"p2p_seq_id\":9,\"op_id\":11,"
        "\"profiling_name\":\"nccl:send 1->0\",\"time_created_ns\":5,\"input_sizes\":[[3,4],[]],\"input_dtypes\":[\"Float\"],"
        "\"output_sizes\":[],\"output_dtypes\":[],\"state\":\"started\",\"time_discovered_started_ns\":6,"
        "\"time_discovered_completed_ns\":null,\"retired\":false,\"timeout_ms\":600,\"is_p2p\":true,\"unheard_of\":{},"
        "\"frames\":[{\"name\":\"send\",\"filename\":\"/x/site-packages/torch/distributed/d.py\",\"line\":3},"
        "{\"name\":\"step\",\"filename\":\"/home/me/train.py\",\"line\":12}]}]}"));
    assert_true(dump_settle(&job.dumps));
    assert_int_equal(job.flight.rank_count, 4);
    assert_int_equal(job.flight.ranks[0].now, FLIGHT_ABSENT);
    assert_int_equal(job.flight.ranks[1].now, FLIGHT_UNKNOWN);
    const struct flight_entry *entry = &job.flight.ranks[1].entries[0];
    assert_int_equal(entry->record, 7);
    assert_int_equal(entry->sequence, 9);
    assert_int_equal(entry->op, 11);
    assert_true(entry->is_p2p);
    assert_int_equal(entry->state, FLIGHT_STARTED);
    assert_string_equal(entry->operation, "send");
    assert_string_equal(entry->backend, "nccl");
    assert_string_equal(entry->input_sizes, "[[3, 4], []]");
    assert_string_equal(entry->input_dtypes, "[Float]");
    assert_int_equal(entry->peer, 3); /* rank 0 of the group */
    assert_int_equal(entry->root, -1);
    assert_int_equal(entry->tag, -1);
    assert_int_equal(entry->created_ns, 5);
    assert_int_equal(entry->started_ns, 6);
    assert_int_equal(entry->timeout_ms, 600);
    assert_string_equal(entry->file, "/home/me/train.py");
    assert_string_equal(entry->function, "step");
    assert_int_equal(entry->line, 12);
    assert_string_equal(job.flight.groups[0].description, "tp");
    assert_int_equal(job.flight.groups[0].ranks[0], 3);
    end(&job);
}

static void
what_gloo_calls_retired_is_over_only_if_all_made_it(void **state)
{
    struct job job = { 0 };
    assert_true(give(&job, "t_0", "{\"entries\":[" CALL(0, "0", 1, "gloo:all_reduce", "[[4]]", "scheduled", "true") ","
                                  CALL(1, "0", 2, "gloo:all_reduce", "[[4]]", "scheduled", "true") ","
                                  CALL(2, "0", 3, "gloo:all_reduce", "[[4]]", "scheduled", "true") "]}"));
    assert_true(give(&job, "t_1", "{\"entries\":[" CALL(0, "0", 1, "gloo:all_reduce", "[[4]]", "scheduled", "true") ","
                                  CALL(1, "0", 2, "gloo:all_reduce", "[[5]]", "scheduled", "false") "]}"));
    assert_true(dump_settle(&job.dumps));
    const struct flight_rank *ranks = job.flight.ranks;
    assert_int_equal(ranks[0].entries[0].state, FLIGHT_COMPLETED);
    assert_int_equal(ranks[0].entries[1].state, FLIGHT_STARTED); /* given up: the sizes differ */
    assert_int_equal(ranks[0].entries[2].state, FLIGHT_STARTED); /* given up: rank 1 never came */
    assert_int_equal(ranks[1].entries[0].state, FLIGHT_COMPLETED);
    assert_int_equal(ranks[1].entries[1].state, FLIGHT_SCHEDULED);
    assert_int_equal(job.flight.groups[0].progress[0].enqueued, 3);
    assert_int_equal(job.flight.groups[0].progress[0].completed, 1);
    assert_int_equal(job.flight.groups[0].progress[1].enqueued, 2);
    end(&job);
}

static void
a_root_may_be_through_before_the_others_come(void **state)
{
    struct job job = { 0 };
    assert_true(give(&job, "t_0", "{\"entries\":[" CALL(0, "0", 1, "gloo:broadcast", "[[4]]", "scheduled", "true") "]}"));
    assert_true(give(&job, "t_1", "{\"entries\":[]}"));
    assert_true(dump_settle(&job.dumps));
    assert_int_equal(job.flight.ranks[0].entries[0].state, FLIGHT_COMPLETED);
    end(&job);
}

static void
members_that_no_dump_names_are_those_that_called(void **state)
{
    struct job job = { 0 };
    const char *config = "\"pg_config\":{\"\":{\"name\":\"\",\"desc\":\"\",\"ranks\":\"[0, 1]\"}},";
    struct str text = { 0 };
    for (int rank = 0; rank < 3; rank++) {
        char name[8];
        snprintf(name, sizeof name, "t_%d", rank);
        str_clear(&text);
        str_addf(&text, "{%s\"entries\":[%s%s]}", config, CALL(0, "0", 1, "gloo:barrier", "[]", "scheduled", "true"),
                 rank != 1 ? "," CALL(1, "1", 1, "gloo:barrier", "[]", "scheduled", "false") : "");
        assert_true(give(&job, name, str_text(&text)));
    }
    str_free(&text);
    assert_true(dump_settle(&job.dumps));
    assert_int_equal(job.flight.groups[0].size, 3);
    assert_int_equal(job.flight.groups[1].size, 2);
    assert_int_equal(job.flight.groups[1].ranks[1], 2);
    end(&job);
}

static void
groups_of_one_name_are_told_apart_by_their_members(void **state)
{
    struct job job = { 0 };
#define SPLIT(ranks) "{\"pg_config\":{\"s\":{\"name\":\"s\",\"desc\":\"\",\"ranks\":" ranks "}},\"entries\":[" \
                     CALL(0, "s", 1, "nccl:barrier", "[]", "started", "false") "]}"
    assert_true(give(&job, "t_0", SPLIT("[0, 1]")));
    assert_true(give(&job, "t_2", SPLIT("[2, 3]")));
    assert_true(give(&job, "t_1", SPLIT("[0, 1]")));
    assert_int_equal(job.flight.group_count, 2);
    assert_int_equal(job.flight.ranks[1].entries[0].group, job.flight.ranks[0].entries[0].group);
    assert_false(give(&job, "t_3", SPLIT("[1, 2, 3]")));
    assert_non_null(strstr(job.dumps.why, "of another job"));
    end(&job);
}

static void
several_ranks_may_lie_in_one_file(void **state)
{
    struct job job = { 0 };
#define ONE "{\"entries\":[" CALL(0, "0", 1, "gloo:barrier", "[]", "scheduled", "true") "]}"
    assert_true(give(&job, "all.json", "{\"0\":" ONE ",\"rank_2\":" ONE "}"));
    assert_true(give(&job, "more.json", "[{\"rank\":1,\"entries\":[]}]"));
    assert_false(give(&job, "again_2", ONE));
    assert_string_equal(job.dumps.why, "is a second dump of rank 2; the first is all.json");
    assert_true(dump_settle(&job.dumps));
    assert_int_equal(job.flight.rank_count, 3);
    end(&job);
}

static void
what_is_no_dump_is_refused_in_one_line(void **state)
{
    static const struct { const char *text, *why; } files[] = {
        { "", "is empty" }, { " \n", "is empty" }, { "{", "no JSON that can be read: line 1" },
        { "{}", "no list 'entries'" }, { "[]", "a call in it" }, { "[1]", "a call in it" },
        { "{\"entries\":3}", "no list 'entries'" }, { "{\"entries\":[3]}", "profiling_name" },
        { "{\"entries\":[{\"profiling_name\":3}]}", "profiling_name" }, { "K\1.", "one value" },
        { "!hello", "byte 0 is 0x21" },
    };
    for (size_t i = 0; i < countof(files); i++) {
        struct job job = { 0 };
        bool good = give(&job, "t_0", files[i].text);
        if (strcmp(files[i].text, "[]") == 0) { /* a rank that called nothing, in the oldest form */
            assert_true(good);
        } else {
            assert_false(good);
            assert_non_null(strstr(job.dumps.why, files[i].why));
        }
        end(&job);
    }
    struct job job = { 0 };
    assert_false(give(&job, "trace", "{\"entries\":[]}"));
    assert_non_null(strstr(job.dumps.why, "--rank"));
    end(&job);
}

static void
what_is_odd_is_said(void **state)
{
    struct job job = { 0 };
#define AT(ns) "\"entries\":[{\"profiling_name\":\"nccl:barrier\",\"collective_seq_id\":1,\"time_created_ns\":" ns "}]}"
    assert_true(give(&job, "t_0", "{\"version\":\"2.4\"," AT("1000000000000")));
    assert_true(give(&job, "t_2", "{\"version\":\"2.5\"," AT("9000000000000")));
    assert_true(dump_settle(&job.dumps));
    assert_string_equal(str_text(&job.dumps.notes),
                        "no dump of rank 1: the job has 3 ranks at least, and 2 left one\n"
                        "rank 0's dump is of version 2.4, rank 2's of 2.5: are they of one job?\n"
                        "rank 2's first call is 8000 s after rank 0's last one: are these dumps of one job?\n");
    end(&job);
}

/* ---- written and read again ---- */

static void
a_flight_that_is_written_reads_as_it_was(void **state)
{
    struct flight flight = { 0 };
    struct job    job    = { 0 };
    int           world[] = { 0, 1, 2 }, pair[] = { 2, 0 };
    flight_size(&flight, 3);
    flight.why      = FLIGHT_TIMEOUT;
    flight.after_ps = 5000;
    int all = flight_group(&flight, "0", "default_pg", world, 3), two = flight_group(&flight, "1", NULL, pair, 2);
    struct flight_entry entry = { .record = 3, .sequence = 0, .op = -1, .group = all, .state = FLIGHT_STARTED,
                                  .operation = "all_reduce", .backend = "local", .input_sizes = "[[3, 4], [2]]",
                                  .input_dtypes = "[float32, \"x\"]", .reduce_op = "sum", .details = "by tree\n",
                                  .root = 2, .peer = -1, .tag = -1, .created_ns = 17, .timeout_ms = 30,
                                  .file = "a \"b\".lua", .line = 9 };
    assert_non_null(flight_enter(&flight, 0, &entry));
    entry = (struct flight_entry){ .record = 4, .sequence = 1, .op = 2, .group = two, .is_p2p = true, .operation = "recv",
                                   .root = -1, .peer = 2, .tag = 8 };
    assert_non_null(flight_enter(&flight, 0, &entry));
    flight.ranks[0].now      = FLIGHT_WAITING;
    flight.ranks[0].waits_in = "recv";
    flight.ranks[0].line     = 12;
    flight.ranks[0].group    = two;
    flight.ranks[0].peer     = 2;
    flight.ranks[0].tag      = 8;
    flight.ranks[0].since_ps = 77;
    flight.ranks[1].now      = FLIGHT_THREW;
    flight.ranks[1].detail   = "RuntimeError: no";
    flight.ranks[2].now      = FLIGHT_RETURNED;
    for (int rank = 0; rank < 3; rank++) {
        struct str text = { 0 };
        assert_true(flight_write_json(&flight, rank, &text));
        assert_true(give(&job, "trace", str_text(&text)));
        str_free(&text);
    }
    assert_true(dump_settle(&job.dumps));
    assert_int_equal(job.flight.why, FLIGHT_TIMEOUT);
    assert_int_equal(job.flight.after_ps, 5000);
    const struct flight_rank *read = &job.flight.ranks[0];
    assert_int_equal(read->count, 2);
    assert_int_equal(read->entries[0].sequence, 0);
    assert_int_equal(read->entries[0].state, FLIGHT_STARTED);
    assert_string_equal(read->entries[0].input_sizes, "[[3, 4], [2]]");
    assert_string_equal(read->entries[0].input_dtypes, "[float32, \"x\"]");
    assert_string_equal(read->entries[0].details, "by tree\n");
    assert_string_equal(read->entries[0].file, "a \"b\".lua");
    assert_int_equal(read->entries[0].root, 2);
    assert_int_equal(read->entries[1].peer, 2);
    assert_int_equal(read->entries[1].tag, 8);
    assert_string_equal(read->entries[1].operation, "recv");
    assert_int_equal(read->now, FLIGHT_WAITING);
    assert_string_equal(read->waits_in, "recv");
    assert_string_equal(job.flight.groups[read->group].name, "1");
    assert_int_equal(read->line, 12);
    assert_int_equal(read->since_ps, 77);
    assert_int_equal(job.flight.ranks[1].now, FLIGHT_THREW);
    assert_string_equal(job.flight.ranks[1].detail, "RuntimeError: no");
    assert_int_equal(job.flight.ranks[2].now, FLIGHT_RETURNED);
    flight_free(&flight);
    end(&job);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_data_of_every_protocol_is_read),
        cmocka_unit_test(integers_of_every_width_are_read),
        cmocka_unit_test(texts_of_every_kind_are_read),
        cmocka_unit_test(the_stack_s_own_words_are_understood),
        cmocka_unit_test(what_would_run_code_is_refused_by_its_name),
        cmocka_unit_test(what_is_broken_is_refused_in_one_line),
        cmocka_unit_test(no_value_contains_itself_and_depth_is_bounded),
        cmocka_unit_test(more_values_than_a_dump_has_are_refused),
        cmocka_unit_test(a_file_s_name_says_whose_it_is),
        cmocka_unit_test(an_entry_s_fields_are_taken),
        cmocka_unit_test(what_gloo_calls_retired_is_over_only_if_all_made_it),
        cmocka_unit_test(a_root_may_be_through_before_the_others_come),
        cmocka_unit_test(members_that_no_dump_names_are_those_that_called),
        cmocka_unit_test(groups_of_one_name_are_told_apart_by_their_members),
        cmocka_unit_test(several_ranks_may_lie_in_one_file),
        cmocka_unit_test(what_is_no_dump_is_refused_in_one_line),
        cmocka_unit_test(what_is_odd_is_said),
        cmocka_unit_test(a_flight_that_is_written_reads_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
