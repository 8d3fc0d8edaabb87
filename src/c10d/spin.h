/* Waiting for another thread without sleeping: for what comes within microseconds. Who has waited so in vain sleeps in a
 * monitor, where a deadlock is known; so nobody spins without a bound.
 * Order of use: spin_pauses once, spin_until, then the monitor. */
#ifndef C10D_SPIN_H
#define C10D_SPIN_H
#include <stdatomic.h>
#include <stdbool.h>

int  spin_pauses(int threads);   /* before a core is given away, where so many wait for each other */
/* is: until the value is `value`; else until it is another one. Answers whether it came to that. */
bool spin_until(const atomic_uint *at, bool is, unsigned value, int pauses);
#endif
