/* What a program of 32 bits lacks that is built to see whether its numbers are those of 64 (tests/repeat/hash.t): division
 * of 128 bits, which compilers call for, and x87 arithmetic rounded to double, by which the system's Lua calculates. */
#include <stdint.h>

struct quad { uint32_t word[4]; };

struct quad __udivti3(struct quad a, struct quad b);
struct quad __divti3(struct quad a, struct quad b);

__attribute__((constructor)) static void
round_to_double(void)
{
    uint16_t control = 0x27f;
    __asm__ volatile("fldcw %0" : : "m"(control));
}

/* a = 2 a + bit; answers what falls out. */
static unsigned
shift_in(struct quad *a, unsigned bit)
{
    for (int i = 0; i < 4; i++) {
        unsigned out = a->word[i] >> 31;
        a->word[i] = a->word[i] << 1 | bit;
        bit = out;
    }
    return bit;
}

/* a - b, and whether it is below 0. */
static unsigned
less(struct quad *a, const struct quad *b)
{
    unsigned borrow = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t rest = (uint64_t)a->word[i] - b->word[i] - borrow;
        a->word[i] = (uint32_t)rest;
        borrow = rest >> 63;
    }
    return borrow;
}

struct quad
__udivti3(struct quad a, struct quad b)
{
    struct quad rest = { { 0 } };
    for (int i = 0; i < 128; i++) {
        unsigned    high = shift_in(&rest, a.word[3] >> 31);
        struct quad tried = rest;
        unsigned    fits = !less(&tried, &b) || high;
        if (fits)
            rest = tried;
        shift_in(&a, fits);
    }
    return a;
}

static struct quad
negative(struct quad a)
{
    struct quad zero = { { 0 } };
    less(&zero, &a);
    return zero;
}

struct quad
__divti3(struct quad a, struct quad b)
{
    unsigned    minus = (a.word[3] ^ b.word[3]) >> 31;
    struct quad quotient = __udivti3(a.word[3] >> 31 ? negative(a) : a, b.word[3] >> 31 ? negative(b) : b);
    return minus ? negative(quotient) : quotient;
}
