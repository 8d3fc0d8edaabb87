#!/bin/sh
# LSTM as one op against its steps: both executors, and the exact product in free.
out=${RINGSIDE_OUT:-build/release}
n=0
failed=0
for executor in stepped free "free --exact"; do
    lines=$("$out/ringside" run --trust --tap --quiet --executor $executor tests/ops/lstm.lua) || failed=1
    printf '%s\n' "$lines" | awk -v n=$n -v e="$executor" '
        /^(not )?ok / { n++; sub(/ok [0-9]+ - /, "ok " n " - " e " "); print; next }
        !/^1\.\./ { print }'
    n=$((n + $(printf '%s\n' "$lines" | grep -c -E '^(not )?ok ')))
done
if [ "$failed" = 0 ] && [ "$n" -gt 0 ]; then
    echo "1..$n"
fi
exit "$failed"
