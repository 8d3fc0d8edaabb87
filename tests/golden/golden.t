#!/bin/sh
# PyTorch's numbers through the Lua API, in both executors: one TAP line a case.
out=${RINGSIDE_OUT:-build/release}
RINGSIDE=$out/ringside
export RINGSIDE
n=0
failed=0
for executor in stepped free; do
    lines=$(scripts/golden --executor $executor tests/golden tests/golden/first-light) || failed=1
    count=$(printf '%s\n' "$lines" | grep -c -E '^(not )?ok ')
    printf '%s\n' "$lines" | awk -v n=$n -v e=$executor '
        /^(not )?ok / { n++; sub(/ok [0-9]+ - /, "ok " n " - " e ", "); print; next }
        !/^1\.\./ { print }'
    n=$((n + count))
done
if [ "$failed" = 0 ] && [ "$n" -gt 0 ]; then
    echo "1..$n"
fi
exit "$failed"
