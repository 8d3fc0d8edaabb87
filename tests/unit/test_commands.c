/* The table of commands, the words of a command line, and the wire. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/runtime_folder.h"
#include "base/str.h"
#include "control/commands.h"

static void
lines_become_commands(void **state)
{
    static const struct { const char *line; int command; int64_t count; const char *rest; } cases[] = {
        { "step", CMD_step, 1, "" },
        { "  step   5  ", CMD_step, 5, "5" },
        { "s", CMD_step, 1, "" },
        { "S 3", CMD_back, 3, "3" },
        { "b", CMD_break, 1, "" },
        { "br dp.scatter rank 1 if bytes > 10", CMD_break, 1, "dp.scatter rank 1 if bytes > 10" },
        { "fin", CMD_finish, 1, "" },
        { "rc", CMD_rcontinue, 1, "" },
        { "until t > 1e6", CMD_until, 1, "t > 1e6" },
        { "118", CMD_goto, 118, "118" },
        { "goto 7", CMD_goto, 7, "7" },
        { "w", CMD_zoom_in, 1, "" },
        { "wh", CMD_where, 1, "" },
        { "x 2", CMD_switch, 2, "2" },
        { "set rank 1 fc.weight[0,1] 2.5", CMD_set, 1, "rank 1 fc.weight[0,1] 2.5" },
        { "?", CMD_help, 1, "" },
    };
    char why[200];
    struct command_line line;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!command_parse(cases[i].line, &line, why, sizeof why))
            fail_msg("%s: %s", cases[i].line, why);
        assert_int_equal(line.command, cases[i].command);
        assert_int_equal(line.count, cases[i].count);
        assert_string_equal(line.rest, cases[i].rest);
    }
}

static void
what_is_wrong_with_a_line_is_said(void **state)
{
    static const struct { const char *line, *says; } cases[] = {
        { "", "empty" },
        { "   ", "empty" },
        { "dance", "no command is called 'dance'" },
        { "se", "set or search" },
        { "finish 3", "takes no arguments" },
        { "step three", "not a number" },
        { "step 99999999999999999999", "not a number" },
        { "until", "needs EXPR" },
        { "goto", "needs PLACE" },
        { "delete x", "not a number" },
    };
    char why[200];
    struct command_line line;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_false(command_parse(cases[i].line, &line, why, sizeof why));
        if (strstr(why, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].line, why);
    }
    char longest[2000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(command_parse(longest, &line, why, sizeof why));
    memcpy(longest, "until ", 6);
    assert_false(command_parse(longest, &line, why, sizeof why));
}

static void
no_key_has_two_commands_and_every_command_has_help(void **state)
{
    char seen[CMD_COUNT * 3][16];
    int count = 0;
    for (int i = 0; i < CMD_COUNT; i++) {
        const struct command_info *info = command_info(i);
        assert_true(info->help[0] != '\0' && info->group[0] != '\0' && info->name[0] != '\0');
        assert_true(info->scope != 0);
        char keys[64];
        snprintf(keys, sizeof keys, "%s", info->keys);
        for (char *key = strtok(keys, " "); key != NULL; key = strtok(NULL, " ")) {
            for (int k = 0; k < count; k++)
                assert_string_not_equal(seen[k], key);
            snprintf(seen[count++], sizeof seen[0], "%s", key);
        }
    }
    assert_null(command_info(-1));
    assert_null(command_info(CMD_COUNT));
}

static void
help_names_every_command_once(void **state)
{
    struct str out = { 0 };
    commands_help(&out, SCOPE_SESSION | SCOPE_VIEWER);
    for (int i = 0; i < CMD_COUNT; i++)
        assert_non_null(strstr(str_text(&out), command_info(i)->help));
    str_clear(&out);
    commands_help(&out, SCOPE_SESSION);
    assert_null(strstr(str_text(&out), "zoom-in"));
    str_free(&out);
}

static void
the_socket_is_private_and_goes_away(void **state)
{
    char path[200], why[200];
    struct runtime_folder own;
    assert_true(runtime_folder_make(&own, RUNTIME_SOCKET, why, sizeof why));
    int fd = control_listen(own.path, path, sizeof path, why, sizeof why);
    assert_true(fd >= 0);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    char folder[200];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(stat(folder, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);

    int client = control_connect(path, why, sizeof why);
    assert_true(client >= 0);
    close(client);
    close(fd);
    runtime_folder_remove(&own);
    assert_int_not_equal(stat(folder, &about), 0);
    assert_int_equal(control_connect(path, why, sizeof why), -1);
    assert_true(why[0] != '\0');
}

static void
replies_end_with_a_dot_on_a_line_of_its_own(void **state)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct str out = { 0 };
    struct control_reader reader = { .fd = ends[1] };
    const char reply[] = "at 3 state=paused\nx = 1.\n.5\n.\n";
    assert_true(control_send(ends[0], reply, sizeof reply - 1));
    assert_true(control_reply(&reader, &out));
    assert_string_equal(str_text(&out), "at 3 state=paused\nx = 1.\n.5\n");
    assert_true(control_send(ends[0], ".\nnow 4\n.\n", 10));
    assert_true(control_reply(&reader, &out));
    assert_string_equal(str_text(&out), "");
    assert_true(control_reply(&reader, &out)); /* two in one piece stay two */
    assert_string_equal(str_text(&out), "now 4\n");
    close(ends[0]);
    assert_false(control_reply(&reader, &out));
    close(ends[1]);
    str_free(&out);
}

static void
lines_are_read_one_by_one_and_endless_ones_refused(void **state)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct control_reader reader = { .fd = ends[1] };
    struct str line = { 0 };
    assert_true(control_send(ends[0], "step 2\n\nwhere\n", 14));
    assert_true(control_read_line(&reader, &line));
    assert_string_equal(str_text(&line), "step 2");
    assert_true(control_read_line(&reader, &line));
    assert_string_equal(str_text(&line), "");
    assert_true(control_read_line(&reader, &line));
    assert_string_equal(str_text(&line), "where");
    char junk[4096];
    memset(junk, 'j', sizeof junk);
    for (int i = 0; i < 17; i++)
        assert_true(control_send(ends[0], junk, sizeof junk));
    assert_false(control_read_line(&reader, &line));
    close(ends[0]);
    close(ends[1]);
    str_free(&line);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_commands),
        cmocka_unit_test(what_is_wrong_with_a_line_is_said),
        cmocka_unit_test(no_key_has_two_commands_and_every_command_has_help),
        cmocka_unit_test(help_names_every_command_once),
        cmocka_unit_test(the_socket_is_private_and_goes_away),
        cmocka_unit_test(replies_end_with_a_dot_on_a_line_of_its_own),
        cmocka_unit_test(lines_are_read_one_by_one_and_endless_ones_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
