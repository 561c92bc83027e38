# SPDX-License-Identifier: BSD-3-Clause
# 1000 scattered pages of 4 KiB cost what zstd makes of them, and little
# more.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

python3 - "$d" <<'END'
import random, sys
random.seed(3)
d = sys.argv[1]
pages = sorted(random.sample(range(262144), 1000))
with open(d + '/disk', 'wb') as f, open(d + '/list', 'w') as l, \
     open(d + '/pages', 'wb') as p:
    f.truncate(1 << 30)
    for n in pages:
        # Text that zstd shrinks to about the half.
        page = bytes(random.choices(b'abcdefghijklmnop', k=4096))
        f.seek(n * 4096)
        f.write(page)
        p.write(page)
        l.write(f'{n * 4096} 4096\n')
END
increment "$d/session"
dump "$d/wire" file "$d/disk" "delta-extents=$d/list" \
  "delta-session=$d/session" "delta-stats=$d/stats" delta-level=1
truncate -s 1G "$d/out"
apply "$d/wire" "$d/out"
cmp "$d/disk" "$d/out"

zstd=$(zstd -q -1 -c "$d/pages" | wc -c)
packed=$(stat_of "$d/stats" packed_bytes)
echo "zstd of the pages: $zstd bytes, on the wire: $packed"
((packed * 10 <= zstd * 11 + 640 * 1000))
(($(stat_of "$d/stats" sent_bytes) <= packed))
(($(stat_of "$d/stats" data_bytes) == 4096000))
