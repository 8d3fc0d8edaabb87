#!/bin/sh
# PyTorch's numbers through the Lua API, in both executors, and in free with the exact product too (stepped has no other) where
# there are products: one TAP line a case.
out=${RINGSIDE_OUT:-build/release}
RINGSIDE=$out/ringside
export RINGSIDE
there=tests/golden
products="$there/modules*.json $there/ops*.json $there/autograd*.json $there/losses*.json $there/optim*.json
    $there/dp_*.json $there/ddp-alias*.json $there/ddp-train*.json $there/train*.json"
n=0
failed=0
for way in stepped free 'free --exact'; do
    files="$there $there/first-light"
    [ "$way" = 'free --exact' ] && files=$products
    # shellcheck disable=SC2086
    lines=$(scripts/golden --executor $way $files) || failed=1
    count=$(printf '%s\n' "$lines" | grep -c -E '^(not )?ok ')
    printf '%s\n' "$lines" | awk -v n="$n" -v e="$way" '
        /^(not )?ok / { n++; sub(/ok [0-9]+ - /, "ok " n " - " e " "); print; next }
        !/^1\.\./ { print }'
    n=$((n + count))
done
if [ "$failed" = 0 ] && [ "$n" -gt 0 ]; then
    echo "1..$n"
fi
exit "$failed"
