/* One function per subcommand of ringside: argv[0] is its name; the answer is the exit status. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

int cli_run(int argc, char **argv);
int cli_step(int argc, char **argv);
int cli_launch(int argc, char **argv);
int cli_view(int argc, char **argv);
int cli_story(int argc, char **argv);
int cli_events(int argc, char **argv);
int cli_hang(int argc, char **argv);
int cli_explore(int argc, char **argv);
int cli_devices(int argc, char **argv);
int cli_lessons(int argc, char **argv);
int cli_exercise(int argc, char **argv);
int cli_synth(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_help(int argc, char **argv);

int (*subcommand_find(const char *name))(int argc, char **argv); /* NULL: none is called so */
int help_names(void);                                            /* the reference's namespaces, a line each */
#endif
