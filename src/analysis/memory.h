/* What each byte is for. Decided here alone, from what the trace holds: the stage in which the memory was taken, and
 * the moments at which a tensor became something that its birth did not show: a parameter, a buffer, a gradient. */
#ifndef ANALYSIS_MEMORY_H
#define ANALYSIS_MEMORY_H
#include <stdbool.h>
#include <stdint.h>

enum memory_role {
    ROLE_PARAMETERS, ROLE_BUFFERS, ROLE_GRADIENTS, ROLE_OPTIMIZER, ROLE_REPLICAS, ROLE_ACTIVATIONS, ROLE_INPUTS,
    ROLE_OUTPUTS, ROLE_BUCKETS, ROLE_OTHER, MEMORY_ROLES
};
/* "parameters", "optimizer state" */
const char *memory_role_name(enum memory_role role);
/* Of memory.role's argument; ROLE_OTHER: a word that nobody knows. */
enum memory_role memory_role_of_word(const char *word);

/* What a stage says of the memory that is taken in it: a role, or one of these. */
enum { STAGE_SAYS_NOTHING = MEMORY_ROLES, STAGE_IS_OP };
uint8_t memory_role_in_stage(const char *kind);
#endif
