#!/bin/sh
# Watches region.c and pack.c read thousands of damaged files, half of them packed: with gcc's address and
# undefined-behaviour sanitizers (leaks included), then twice under valgrind, which sees inside libjpeg too. Uses of
# memory that was never written are looked for without libjpeg's SIMD code: with it, valgrind takes the last green
# sample of odd rows for one, in a plain decode of a whole file as well. (That no pixel depends on old memory with SIMD
# either is what tests/native/test_region.py tests.)
#   tools/region_sanitize.sh [mutants for the sanitizer] [mutants for valgrind] [python]
set -eu
many=${1:-20000}
few=${2:-5000}
python=${3:-python}
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/mutants"
"$python" "$here/../tests/native/region_jpegs.py" "$folder/mutants" "$many"
find "$folder/mutants" -name 'mutant-*.jpg' | sort > "$folder/mutated"
find "$folder/mutants" -name 'sound-*.jpg' | sort > "$folder/sound"

${CC:-cc} -std=gnu11 -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all \
    "$here/region_replay.c" -o "$folder/sanitized" -ljpeg
${CC:-cc} -std=gnu11 -g -O1 "$here/region_replay.c" -o "$folder/plain" -ljpeg

watch() {
    xargs -n 2500 valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=all \
        --errors-for-leak-kinds=all "$@" "$folder/plain"
}

echo "address and undefined-behaviour sanitizers:"
cat "$folder/sound" "$folder/mutated" | xargs -n 2500 "$folder/sanitized"
head -n "$few" "$folder/mutated" | cat "$folder/sound" - > "$folder/watched"
echo "valgrind, memory never written:"
JSIMD_FORCENONE=1 watch < "$folder/watched"
echo "valgrind, with SIMD:"
watch --undef-value-errors=no < "$folder/watched"
echo "nothing was reported"
