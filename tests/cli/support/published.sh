# published FILE: the digests in the tables of docs/numerics.md, sorted, as lines of op, dtype, digest and digest of
# shapes. digests FILE: the same from what mlxn check printed. Sourced.
published() {
  sed -n 's/^| `\([a-z0-9_]*\)` | `\([0-9a-f]\{32\}\)` | `\([0-9a-f]\{32\}\)` | `\([0-9a-f]\{32\}\)` |$/\1 \2 \3 \4/p' "$1" |
    awk '{ split("f32 f16 bf16", dtype)
           for (i = 1; i <= 3; i++) {
             key = $1 " " dtype[i]
             if (key in digest) print key, digest[key], $(i + 1)
             digest[key] = $(i + 1)
           } }' | sort
}

digests() {
  awk '$2 ~ /^b?f(16|32)$/ && $3 != "every" { print $1, $2, $(NF - 1), $NF }' "$1" | sort
}
