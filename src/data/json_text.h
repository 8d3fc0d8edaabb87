/* JSON out of files. */
#ifndef DATA_JSON_TEXT_H
#define DATA_JSON_TEXT_H
#include <jansson.h>
#include <stddef.h>

/* NULL: in *why what is wrong with it, without a byte of the text; "": there was no memory. No name may come twice. */
json_t *json_text_parse(const char *text, size_t length, char why[JSON_ERROR_TEXT_LENGTH]);
#endif
