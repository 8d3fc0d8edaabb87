/* The bodies that functions.def names; each is in the file of its family. */
#ifndef FUNCTIONAL_FUNCTIONS_H
#define FUNCTIONAL_FUNCTIONS_H
#include "functional/catalogue.h"

#define FUNCTION(body, forms, signature, help) function_body body;
#define OF_OP(body, op, forms, signature, help) function_body body;
#define ALIAS(name, of)
#include "functional/functions.def"
#undef ALIAS
#undef OF_OP
#undef FUNCTION
#endif
