#!/bin/sh
# Gradients of layers and losses, first and second, against differences, and an LSTM's layer against its steps: both
# executors, the latter with the exact product in free, too.
out=${RINGSIDE_OUT:-build/release}
n=0
failed=0
check() {
    lesson=$1
    shift
    lines=$("$out/ringside" run --trust --tap --quiet --executor "$@" "tests/ops/$lesson.lua") || failed=1
    printf '%s\n' "$lines" | awk -v n=$n -v e="$*" '
        /^(not )?ok / { n++; sub(/ok [0-9]+ - /, "ok " n " - " e " "); print; next }
        !/^1\.\./ { print }'
    n=$((n + $(printf '%s\n' "$lines" | grep -c -E '^(not )?ok ')))
}
check layers stepped
check layers free
check lstm stepped
check lstm free
check lstm free --exact
if [ "$failed" = 0 ] && [ "$n" -gt 0 ]; then
    echo "1..$n"
fi
exit "$failed"
