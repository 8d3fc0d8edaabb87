/* Fibers: a stack and a place to go on. Switching is a few instructions (switch.S) or ucontext elsewhere; the
 * sanitizers are told. Order of use: fiber_start, fiber_switch ..., fiber_end (the last switch away), fiber_free. */
#ifndef SCHED_FIBER_H
#define SCHED_FIBER_H
#include <stdbool.h>
#include <stddef.h>

struct fiber {
    void  *stack;          /* lowest usable byte; NULL: the thread's own */
    size_t size;
    void  *saved;          /* stack pointer, or a ucontext_t */
    void  *fake;           /* AddressSanitizer's */
    void  *thread_state;   /* ThreadSanitizer's */
    const void *seen_stack;/* bounds of the thread's own stack, learnt from AddressSanitizer */
    size_t seen_size;
    void (*run)(void *argument);
    void  *argument;
};

void fiber_adopt(struct fiber *fiber);                                  /* the calling thread's own stack */
bool fiber_start(struct fiber *fiber, size_t stack_bytes, void (*run)(void *argument), void *argument);
void fiber_switch(struct fiber *from, struct fiber *to, bool for_ever); /* for_ever: `from` never runs again */
void fiber_entered(struct fiber *self, struct fiber *from);             /* first thing on a new fiber */
void fiber_free(struct fiber *fiber);
#endif
