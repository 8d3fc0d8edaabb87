#!/bin/sh
# Every op's gradient against differences, indexing against the rule, in-place twins against the plain ones, and
# functions made of other ops and types of elements against PyTorch's numbers: both executors.
out=${RINGSIDE_OUT:-build/release}
n=0
failed=0
for executor in stepped free; do
    for lesson in ops compositions dtypes kinds limits; do
        lines=$("$out/ringside" run --trust --tap --quiet --executor $executor tests/ops/$lesson.lua) || failed=1
        printf '%s\n' "$lines" | awk -v n=$n -v e=$executor '
            /^(not )?ok / { n++; sub(/ok [0-9]+ - /, "ok " n " - " e " "); print; next }
            !/^1\.\./ { print }'
        n=$((n + $(printf '%s\n' "$lines" | grep -c -E '^(not )?ok ')))
    done
done
if [ "$failed" = 0 ] && [ "$n" -gt 0 ]; then
    echo "1..$n"
fi
exit "$failed"
