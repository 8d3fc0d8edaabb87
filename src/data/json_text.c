/* The library calls a text wrong when it has no memory to read it: so a text that is wrong is read twice.
 *
 * Interface: json_text_parse. */
#include "data/json_text.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

json_t *
json_text_parse(const char *text, size_t length, char why[JSON_ERROR_TEXT_LENGTH])
{
    json_error_t error;
    json_t      *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    void *memory = malloc(length + 1);
    free(memory);
    char *quoted = strstr(error.text, " near ");
    if (quoted != NULL)
        *quoted = '\0'; /* bytes of the text */
    bool wrong = root == NULL && memory != NULL && json_error_code(&error) != json_error_out_of_memory;
    strcpy(why, wrong ? error.text : "");
    return root;
}
