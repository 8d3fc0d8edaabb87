/* The bodies that functions.def names; each is in the file of its family. */
#ifndef FUNCTIONAL_FUNCTIONS_H
#define FUNCTIONAL_FUNCTIONS_H
#include "functional/catalogue.h"

#define FUNCTION(body, forms, room, signature, help) function_body body; function_room room;
#define OF_OP(body, op, forms, room, signature, help) function_body body; function_room room;
#define ALIAS(name, of)
#include "functional/functions.def"
#undef ALIAS
#undef OF_OP
#undef FUNCTION
#endif
