/* Before each source of a build of 32 bits (tests/repeat/hash.t), where compilers have no __int128. */
#define __int128 _BitInt(128)
