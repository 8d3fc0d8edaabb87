/* Names that several hold, of the host's pool: a module's and those of its replicas, an entry's, a list's, a dict's
 * keys. To who reads one it is a text. Order of use: name_new or name_join, name_ref, name_unref. */
#ifndef NN_NAME_H
#define NN_NAME_H

struct task;

char *name_new(struct task *me, const char *text);                         /* NULL: failed */
char *name_join(struct task *me, const char *prefix, const char *name);    /* "prefix.name"; of no prefix: "name" */
char *name_ref(char *name);                                                /* NULL in, NULL out */
void  name_unref(struct task *me, char *name);
#endif
