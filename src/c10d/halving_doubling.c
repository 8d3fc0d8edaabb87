/* Recursive halving and doubling: in step i ranks whose numbers differ in bit i exchange half of what they still add
 * up, so that after log2(N) steps each has the sum of one N-th; then the same steps backwards, each doubling what is
 * known. As few bytes as a ring, in 2 log2(N) steps. Where N is no power of two, P being the one below it, each of the
 * first N - P odd ranks folds its tensor into the even one before it and gets the sum from it at the end.
 * PyTorch: gloo's allreduce_halving_doubling (which takes blocks of powers of two instead of folding). */
#include "c10d/local.h"

struct halving {
    int rank, ranks;   /* among those that take part: P of them */
    int folded;        /* so many pairs of ranks stand for one */
};

static int
power_below(int ranks)
{
    int power = 1;
    while (power * 2 <= ranks)
        power *= 2;
    return power;
}

/* The rank of the group that stands at `place` among the P. */
static int
halving_rank(const struct halving *halving, int place)
{
    return place < halving->folded ? 2 * place : place + halving->folded;
}

/* What two partners both have is cut in two; the one with the lower number keeps the first half. */
static struct part
half_of(struct part part, bool upper)
{
    return part_of(part, upper, 2);
}

static bool
halving_steps(struct task *me, const struct collective *call, const struct halving *halving)
{
    struct part mine[32] = { { 0, call->elements } };
    int         step     = 0;
    bool        ok       = true;
    for (int bit = 1; bit < halving->ranks && ok; bit *= 2, step++) {
        bool upper      = (halving->rank & bit) != 0;
        int  partner    = halving_rank(halving, halving->rank ^ bit);
        mine[step + 1]  = half_of(mine[step], upper);
        struct exchange half = { .to = partner, .from = partner, .chunk = step, .reduce = true, .in_place = true,
                                 .send = half_of(mine[step], !upper), .receive = mine[step + 1] };
        ok = exchange_run(me, call, &half);
    }
    for (int bit = halving->ranks / 2; bit > 0 && ok; bit /= 2, step--) {
        bool upper   = (halving->rank & bit) != 0;
        int  partner = halving_rank(halving, halving->rank ^ bit);
        struct exchange both = { .to = partner, .from = partner, .chunk = step - 1, .in_place = true,
                                 .send = mine[step], .receive = half_of(mine[step - 1], !upper) };
        ok = exchange_run(me, call, &both);
    }
    return ok;
}

static bool
halving_all_reduce(struct task *me, const struct collective *call)
{
    struct halving halving = { .rank = call->rank, .ranks = power_below(call->ranks) };
    halving.folded = call->ranks - halving.ranks;
    bool is_pair = call->rank < 2 * halving.folded, is_odd = call->rank % 2 != 0;
    struct exchange fold = { .to = -1, .from = -1, .chunk = -1, .send = { 0, call->elements },
                             .receive = { 0, call->elements }, .reduce = true, .in_place = true };
    struct exchange tell = fold;
    tell.reduce = false;
    if (is_pair) {
        *(is_odd ? &fold.to : &fold.from) = is_odd ? call->rank - 1 : call->rank + 1;
        *(is_odd ? &tell.from : &tell.to) = is_odd ? call->rank - 1 : call->rank + 1;
        halving.rank = call->rank / 2;
    } else {
        halving.rank = call->rank - halving.folded;
    }
    if (!exchange_run(me, call, &fold))
        return false;
    if (!(is_pair && is_odd) && !halving_steps(me, call, &halving))
        return false;
    return exchange_run(me, call, &tell);
}

static struct cut
halving_cut(const struct collective *call)
{
    return (struct cut){ power_below(call->ranks), 0, 0 };
}

const struct algorithm algorithm_halving_doubling = {
    "halving_doubling", halving_all_reduce, halving_cut, true,
    "2 P log2(P) + 2 (N-P), P the power of two below N",
    "2 (P-1)/P S; folded pairs: S more",
    "partners at distances 1, 2, 4 ... exchange half of what is left, then the same backwards"
};
