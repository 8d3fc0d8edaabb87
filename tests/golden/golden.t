#!/bin/sh
# PyTorch's numbers through the Lua API, in both executors, and in free with the exact product too (stepped has no other):
# one TAP line a case.
out=${RINGSIDE_OUT:-build/release}
RINGSIDE=$out/ringside
export RINGSIDE
n=0
failed=0
for way in stepped free 'free --exact'; do
    # shellcheck disable=SC2086
    lines=$(scripts/golden --executor $way tests/golden tests/golden/first-light) || failed=1
    count=$(printf '%s\n' "$lines" | grep -c -E '^(not )?ok ')
    printf '%s\n' "$lines" | awk -v n=$n -v e="$way" '
        /^(not )?ok / { n++; sub(/ok [0-9]+ - /, "ok " n " - " e " "); print; next }
        !/^1\.\./ { print }'
    n=$((n + count))
done
if [ "$failed" = 0 ] && [ "$n" -gt 0 ]; then
    echo "1..$n"
fi
exit "$failed"
