/* What of a lesson's text is hidden, for texts of every kind: none of a hidden field's bytes is ever shown, however it is
 * written, and whatever a text holds is read within its bounds. */
#include "view_rig.h"

#include "../../trace_viewer/secrets.h"
#include "base/str.h"

/* All lines of a text as they may be shown. */
static void
show_text(const struct rig *rig, const char *text, struct str *out)
{
    struct secrets secrets;
    assert_true(secrets_find(&rig->model, &rig->view, text, &secrets));
    size_t length = strlen(text), before = 0;
    for (size_t i = 0; i < secrets.count; i++) {
        assert_true(secrets.found[i].begin >= before && secrets.found[i].begin <= secrets.found[i].end);
        assert_true(secrets.found[i].end <= length);
        before = secrets.found[i].begin;
    }
    for (const char *line = text; *line != '\0';) {
        char   shown[512];
        size_t bytes = strcspn(line, "\n");
        memset(shown, '#', sizeof shown);
        secrets_line(&secrets, line, bytes, shown, sizeof shown);
        assert_non_null(memchr(shown, '\0', sizeof shown));
        assert_true(strlen(shown) <= bytes + 1);
        str_addf(out, "%s\n", shown);
        line += bytes + (line[bytes] == '\n');
    }
    secrets_free(&secrets);
}

static void
add_one_of(struct str *text, uint64_t *state, const char *const *words, size_t count)
{
    str_add(text, words[splitmix(state) % count]);
}
#define ADD_ONE_OF(text, state, ...)                                                                       \
    add_one_of(text, state, (const char *const[]){ __VA_ARGS__ },                                           \
               sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

/* Harmless code that looks like what matters. */
static void
add_noise(struct str *text, uint64_t *state)
{
    ADD_ONE_OF(text, state, "local a = \"} answer = {\"\n", "x[1] = { 1, 2, [3] = { } }\n", "-- { answer = \n", "\n\n",
               "f({ a = \"\\\"}\" }, [[ { ]] )\n", "local answer = a == b\n", "--[==[ ]] { ]==] y = 'it\\'s'\n",
               "t = { question = 1, what = 2 }\n", "t.answer = nil\n", "s = [=[ answer = \"\n ]] ]=]\n");
}

static void
add_secret_value(struct str *text, uint64_t *state)
{
    ADD_ONE_OF(text, state, "\"ZZ\"", "'ZZ, }'", "[[ZZ\nZZ ] } ZZ]]", "[==[ZZ ]] , ZZ]==]", "\"ZZ\" ..\n  \"ZZ\"", "ZZ",
               "f(1, \"ZZ\", { 2, 'ZZ' })", "{ \"ZZ\", answer = 'ZZ' }", "\"\\\"ZZ, }\"", "ZZ --[[ZZ,]] .. ZZ", "#ZZ == 1 and\n\nZZ",
               "({ ZZ })[1]", "tostring(ZZ[\"a,b\"])");
}

static void
add_question(struct str *text, uint64_t *state)
{
    ADD_ONE_OF(text, state, "rs.ask {", "rs.ask({", "ask\n{", "local q = {{", "quiz { { 1 }, ");
    int fields = 2 + (int)(splitmix(state) % 4), answer = (int)(splitmix(state) % (uint64_t)fields);
    for (int i = 0; i < fields; i++) {
        ADD_ONE_OF(text, state, " ", "\n  ", "\t", " --[[ ZZ ]] ", " -- ZZ answer = 1\n");
        if (i != answer)
            ADD_ONE_OF(text, state, "\"How?\"", "question = 'What?'", "choices = { \"a\", 'b}', }", "[1] = 2", "f { x = 1, y }",
                       "answers = 3", "whys = function() return { } end");
        else
            ADD_ONE_OF(text, state, "answer=", "answer = ", "[\"answer\"] =\n", "[ 'answer' ]= ", "answer\n = \n");
        if (i == answer)
            add_secret_value(text, state);
        if (i != answer && splitmix(state) % 4 == 0) {
            str_add(text, ", why = ");
            add_secret_value(text, state);
        }
        ADD_ONE_OF(text, state, ",", ";", " , -- ZZ\n");
    }
    ADD_ONE_OF(text, state, "}\n", "\n}\n", "} x = 1\n");
}

static void
no_byte_of_an_open_answer_is_shown(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t   random = 7;
    rig_random(&rig, 1, 10);
    rig.view.asking.all = false;
    for (int round = 0; round < 3000; round++) {
        struct str text = { 0 }, shown = { 0 };
        for (int i = 0; i < 6; i++) {
            if (splitmix(&random) % 3 == 0)
                add_question(&text, &random);
            else
                add_noise(&text, &random);
        }
        show_text(&rig, str_text(&text), &shown);
        if (strstr(str_text(&shown), "ZZ") != NULL)
            fail_msg("%s\nis shown as\n%s", str_text(&text), str_text(&shown));
        str_free(&text);
        str_free(&shown);
    }
    rig_end(&rig);
}

static void
what_asks_nothing_is_shown_as_it_is(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t   random = 11;
    rig_random(&rig, 1, 10);
    rig.view.asking.all = false;
    for (int round = 0; round < 500; round++) {
        struct str text = { 0 }, shown = { 0 };
        for (int i = 0; i < 12; i++)
            add_noise(&text, &random);
        show_text(&rig, str_text(&text), &shown);
        assert_string_equal(str_text(&shown), str_text(&text));
        str_free(&text);
        str_free(&shown);
    }
    rig_end(&rig);
}

static void
any_bytes_are_read_within_their_bounds(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t   random = 13;
    rig_random(&rig, 1, 10);
    rig.view.asking.all = false;
    for (int round = 0; round < 20000; round++) {
        static const char letters[] = "answer=why{}[]()\"'\\-=, ;\n\n\t\xff" "0";
        size_t length = splitmix(&random) % 40;
        char  *text = malloc(length + 7); /* of its own, so that a sanitizer sees its end */
        struct str shown = { 0 };
        assert_non_null(text);
        for (size_t i = 0; i < length; i++)
            text[i] = letters[splitmix(&random) % (sizeof letters - 1)];
        memcpy(text + length, "answer", 7);
        show_text(&rig, text, &shown);
        str_free(&shown);
        free(text);
    }
    rig_end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_byte_of_an_open_answer_is_shown),
        cmocka_unit_test(what_asks_nothing_is_shown_as_it_is),
        cmocka_unit_test(any_bytes_are_read_within_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
