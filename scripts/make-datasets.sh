#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make-datasets.sh [--large] [--seed N] [--plain] [--inputs] [DIR] [NAME...] - record the medium captures (50 to 150 MB of trace each; --large:
# 0.45 to 1 GB) into DIR.
#
# With --inputs nothing is recorded: the inputs are made, and each program's command printed, a line each, for bench/run.sh.
# With --plain the traces have no time packets and no compressed returns: what other decoders are measured with.
# Another seed (default: 1) makes other inputs of the same kind: a second recording of the same program, to fill caches with.
#
# The programs are those of the system: gzip, xz, sqlite3, perl, python3, cc1 (of gcc) and node; what is not installed is left out.
# Their inputs are made here, the same on every machine.  Each program is run natively and recorded, and both must print the same and
# end alike.  The figures go to standard output and, a JSON object a line, to DIR/datasets.jsonl.  Seconds are CPU seconds (user and system) of all processes of the run; "wall" is what passed.
set -euo pipefail

src=$(cd "$(dirname "$0")/.." && pwd)
names=(gzip xz sqlite3 perl python3 cc1 node)
declare -A packages=([gzip]=gzip [xz]=xz-utils [sqlite3]=sqlite3 [perl]=perl [python3]=python3 [cc1]=gcc [node]=nodejs)

die() {
	echo "make-datasets.sh: $2" >&2
	exit "$1"
}

usage() {
	die 64 "usage: make-datasets.sh [--large] [--seed N] [--plain] [--inputs] [DIR] [NAME...], N from 1 to 999, NAME one of ${names[*]}"
}

scale=1
seed=1
inputs_only=
how=(--timing mtc)
while [[ "${1:-}" = -* ]]; do
	case "$1" in
	--large) scale=10 ;;
	--inputs) inputs_only=1 ;;
	--plain) how=(--timing none --ret-comp off) ;;
	--seed)
		[[ "${2:-}" =~ ^[1-9][0-9]{0,2}$ ]] || usage
		seed=$2
		shift
		;;
	*) usage ;;
	esac
	shift
done
dest=${1:-datasets-made}
[ $# -eq 0 ] || shift
[ $# -eq 0 ] || names=("$@")

if [ -z "${PTMILL:-}" ] && [ -z "$inputs_only" ]; then
	for p in "$src"/build/*/src/cli/ptmill; do
		[ -x "$p" ] && PTMILL=$p
	done
fi
if [ -z "$inputs_only" ]; then
	[ -n "${PTMILL:-}" ] || die 66 "no ptmill: build it, or set PTMILL"
	PTMILL=$(realpath "$PTMILL")
	command -v qemu-x86_64 >/dev/null || die 66 "no qemu-x86_64: install qemu-user"
fi

mkdir -p "$dest"
dest=$(realpath "$dest")
need=$((scale * (256 + 160 * ${#names[@]})))
free=$(($(df -Pk "$dest" | awk 'NR == 2 { print $4 }') / 1024))
[ "$free" -ge "$need" ] || die 75 "$dest: $free MB are free, $need MB are needed"

# What could make two runs differ: the environment, the order of hashes, the layout of memory.
clean=(env -i PATH=/usr/bin:/bin HOME=/nonexistent LC_ALL=C TZ=UTC PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PERL_HASH_SEED=0
	PERL_PERTURB_KEYS=0 setarch -R)

# program NAME - where it is; the system's own, not one that some version manager puts before it.
program() {
	if [ "$1" = cc1 ]; then
		p=$(PATH=/usr/bin:/bin gcc -print-prog-name=cc1 2>/dev/null) || return 1
		[ -x "$p" ] && realpath "$p"
	else
		PATH=/usr/bin:/bin command -v "$1"
	fi
}

# Words of a skewed distribution, numbers, and now and then a line that was there before.
make_text() {
	awk -v lines="$1" -v seed="$seed" 'BEGIN {
		s = 12344 + seed
		for (i = 0; i < 4096; i++) {
			w = ""
			for (k = 2 + i % 9; k > 0; k--) {
				s = (s * 16807) % 2147483647
				w = w sprintf("%c", 97 + s % 26)
			}
			word[i] = w
		}
		for (n = 0; n < lines; n++) {
			line = ""
			for (k = 0; k < 12; k++) {
				s = (s * 16807) % 2147483647
				u = s / 2147483647
				line = line word[int(4096 * u * u * u)] (s % 11 == 0 ? ", " : " ")
			}
			if (s % 5 == 0)
				line = old[s % 64]
			old[n % 64] = line
			print line s % 100000
		}
	}'
}

make_sql() {
	cat <<-END
		PRAGMA cache_size = -65536;
		CREATE TABLE item(id INTEGER PRIMARY KEY, grp INTEGER, name TEXT, price REAL);
		WITH RECURSIVE r(i, s) AS (VALUES(1, $((12344 + seed))) UNION ALL SELECT i + 1, (s * 16807) % 2147483647 FROM r WHERE i < $((12000 * scale)))
		  INSERT INTO item SELECT i, s % 997, 'n' || (s % 9973) || '-' || i, (s % 100000) / 100.0 FROM r;
		CREATE INDEX by_group ON item(grp, price);
		CREATE INDEX by_name ON item(name);
		SELECT grp, count(*), sum(price), max(name) FROM item GROUP BY grp ORDER BY 3 DESC LIMIT 20;
		SELECT count(*) FROM item a JOIN item b ON a.grp = b.grp AND b.price < a.price AND b.price > a.price - 20.0;
		SELECT substr(name, 2, 3) k, avg(price) FROM item WHERE name LIKE '%7-%' GROUP BY k ORDER BY 2, 1 LIMIT 20;
		UPDATE item SET price = price * 1.1 WHERE grp % 3 = 0;
		DELETE FROM item WHERE id % 7 = 3;
		SELECT count(*), sum(price), sum(length(name)) FROM item;
	END
}

make_perl() {
	cat <<-'END'
		my (%count, %next, $previous, $numbers);
		while (my $line = <>) {
			$numbers += $1 if $line =~ /(\d+)$/;
			for my $word ($line =~ /([a-z]+)/g) {
				$count{$word}++;
				$next{$previous . ' ' . $word}++ if defined $previous && $word =~ /^[aeiou]/;
				$previous = $word;
			}
			$line =~ s/(\w+) (\w+)/$2 $1/g;
			$numbers ^= length $line;
		}
		my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
		print "$_ $count{$_}\n" for @top[0 .. 49];
		print scalar(keys %next), " $numbers\n";
	END
}

make_python() {
	cat <<-'END'
		import collections, heapq, json, re, sys

		class Node:
		    def __init__(self, key):
		        self.key, self.left, self.right = key, None, None

		def insert(root, key):
		    while root.key != key:
		        side = "left" if key < root.key else "right"
		        below = getattr(root, side)
		        if below is None:
		            setattr(root, side, Node(key))
		            return
		        root = below

		def depth(node):
		    return 0 if node is None else 1 + max(depth(node.left), depth(node.right))

		count, follow, root = collections.Counter(), collections.defaultdict(set), Node("m")
		with open(sys.argv[1]) as f:
		    for n, line in enumerate(f):
		        words = re.findall(r"[a-z]+", line)
		        count.update(words)
		        for a, b in zip(words, words[1:]):
		            follow[a].add(b)
		        if n % 8 == 0:
		            for w in words:
		                insert(root, w[::-1])
		            again = json.loads(json.dumps({"line": n, "words": words, "odd": [len(w) % 2 == 1 for w in words]}))
		            assert again["words"] == words
		print(heapq.nlargest(20, count.items(), key=lambda item: (item[1], item[0])))
		print(depth(root), sum(len(s) for s in follow.values()))
	END
}

make_c() {
	awk -v n="$1" -v seed="$seed" 'BEGIN {
		print "typedef unsigned long u64; extern u64 out(u64);"
		s = 4241 + seed
		for (i = 0; i < n; i++) {
			printf "struct s%d { int a, b; u64 c[%d]; };\n", i, 2 + i % 7
			printf "static u64 f%d(struct s%d *p, u64 x)\n{\n\tu64 r = x;\n", i, i
			for (k = 0; k < 12; k++) {
				s = (s * 16807) % 2147483647
				if (s % 4 == 0)
					printf "\tfor (int i = 0; i < %d; i++)\n\t\tr += p->c[i %% %d] * %dUL + (r >> %d);\n", s % 50, 2 + i % 7, s, s % 60
				else if (s % 4 == 1)
					printf "\tswitch (r %% 7) {\n\tcase 0: r ^= %dUL; break;\n\tcase 3: p->a += r; break;\n\tcase 5: r = out(r); break;\n\tdefault: p->b--;\n\t}\n", s
				else if (s % 4 == 2)
					printf "\tif ((r & %dUL) > p->a)\n\t\tr = r / %dUL + p->b;\n\telse\n\t\treturn r * %dUL;\n", s, s % 90 + 3, s
				else
					printf "\twhile (r > %dUL && p->b < %d)\n\t\tr -= out(p->b++);\n", s, s % 100
			}
			print "\treturn r;\n}"
		}
		print "u64 all(void *p)\n{\n\tu64 r = 0;"
		for (i = 0; i < n; i++)
			printf "\tr += f%d(p, r);\n", i
		print "\treturn r;\n}"
	}'
}

make_node() {
	cat <<-'END'
		const lines = require("fs").readFileSync(process.argv[2], "latin1").split("\n");
		const count = new Map();
		class Item { constructor(k) { this.k = k; } score() { return this.k.length; } }
		class Odd extends Item { score() { return super.score() * 3; } }
		let sum = 0;
		for (const line of lines) {
			for (const word of line.match(/[a-z]+/g) || []) {
				count.set(word, (count.get(word) || 0) + 1);
				sum += (word.length % 2 ? new Odd(word) : new Item(word)).score();
			}
			sum ^= JSON.parse(JSON.stringify({ line, parts: line.split(",") })).parts.length;
		}
		const top = [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 20);
		console.log(JSON.stringify(top), sum);
	END
}

# make_input NAME - its input in $inputs, its arguments in args.
make_input() {
	local lines
	case "$1" in
	gzip) lines=200000 args=(-6 -n -c "$inputs/gzip.txt") ;;
	xz) lines=25000 args=(-2 -T1 -c "$inputs/xz.txt") ;;
	perl) lines=12000 args=("$inputs/perl.pl" "$inputs/perl.txt") ;;
	python3) lines=12000 args=(-I -S "$inputs/python3.py" "$inputs/python3.txt") ;;
	node) lines=10000 args=(--jitless --single-threaded "$inputs/node.js" "$inputs/node.txt") ;;
	sqlite3) lines=0 args=(-batch -init /dev/null :memory: ".read $inputs/sqlite3.sql") ;;
	cc1) lines=0 args=(-quiet -O2 "$inputs/cc1.c" -o "$inputs/cc1.s") ;;
	*) die 64 "no data set is called $1; there are: gzip xz sqlite3 perl python3 cc1 node" ;;
	esac
	[ "$lines" -eq 0 ] || make_text $((lines * scale)) >"$inputs/$1.txt"
	case "$1" in
	perl) make_perl >"$inputs/perl.pl" ;;
	python3) make_python >"$inputs/python3.py" ;;
	node) make_node >"$inputs/node.js" ;;
	sqlite3) make_sql >"$inputs/sqlite3.sql" ;;
	cc1) make_c $((12 * scale)) >"$inputs/cc1.c" ;;
	esac
}

# timed OUT TIMES COMMAND... - run it; prints the exit code, leaves "cpu-user cpu-system wall" in TIMES, what it printed in OUT.
timed() {
	local out=$1 times=$2 code=0
	shift 2
	TIMEFORMAT='%U %S %R'
	{ time "$@" >"$out" 2>"$out.err" </dev/null || code=$?; } 2>"$times"
	echo "$code"
}

make_one() {
	local name=$1 exe=$2 native recorded ncode rcode code out=$dest/$1
	local args=()
	make_input "$name"
	ncode=$(timed "$inputs/native" "$inputs/native.t" "${clean[@]}" "$exe" "${args[@]}")
	[ ! -e "$inputs/cc1.s" ] || mv "$inputs/cc1.s" "$inputs/native"
	rm -rf "$out"
	rcode=$(timed "$inputs/recorded" "$inputs/recorded.t" "${clean[@]}" "$PTMILL" record --backend qemu "${how[@]}" -o "$out" -- \
		"$exe" "${args[@]}")
	[ ! -e "$inputs/cc1.s" ] || mv "$inputs/cc1.s" "$inputs/recorded"
	[ "$rcode" = 0 ] || { cat "$inputs/recorded.err" >&2; die 70 "$name: it was not recorded"; }
	code=$(sed -n 's/^ptmill: .*exit code \([0-9]*\).*/\1/p' "$inputs/recorded.err")
	[ "$code" = "$ncode" ] || die 70 "$name: exit code $ncode natively, ${code:-none} when recorded"
	cmp -s "$inputs/native" "$inputs/recorded" || die 70 "$name: prints something else when recorded"
	native=$(cat "$inputs/native.t")
	recorded=$(cat "$inputs/recorded.t")
	awk -v name="$name" -v native="$native" -v recorded="$recorded" -v scale="$scale" -v seed="$seed" -v exe="$exe" -v json="$dest/datasets.jsonl" \
		-v bytes="$(cat "$out"/streams/* | wc -c)" -v streams="$(ls "$out/streams" | wc -l)" '
		$1 == "instructions" { n += $2 }
		END {
			split(native, a); split(recorded, b)
			cpu = b[1] + b[2]
			printf "%-8s %14.0f %8.2f %9.2f %9.2f %8.1f %9.1f %8.4f\n", name, n, a[1] + a[2], cpu, b[3], n / cpu / 1e6,
				bytes / 1e6, bytes / n
			printf "{\"name\": \"%s\", \"program\": \"%s\", \"scale\": %d, \"seed\": %d, \"streams\": %d, \"instructions\": %.0f, " \
				"\"native_cpu_s\": %.3f, \"native_wall_s\": %.3f, \"recorded_cpu_s\": %.3f, \"recorded_wall_s\": %.3f, " \
				"\"trace_bytes\": %.0f}\n", name, exe, scale, seed, streams, n, a[1] + a[2], a[3], cpu, b[3], bytes >>json
		}' "$out"/truth/*
}

inputs=$dest/inputs
mkdir -p "$inputs"
if [ -n "$inputs_only" ]; then
	for name in "${names[@]}"; do
		exe=$(program "$name") || continue
		args=()
		make_input "$name"
		echo "$name ${clean[*]@Q} ${exe@Q} ${args[*]@Q}"
	done
	exit 0
fi
touch "$dest/datasets.jsonl"
absent=()
printf '%-8s %14s %8s %9s %9s %8s %9s %8s\n' program instructions native_s record_s wall_s M_insn/s trace_MB B/insn
for name in "${names[@]}"; do
	[ -n "${packages[$name]:-}" ] || die 64 "no data set is called $name; there are: ${!packages[*]}"
	if exe=$(program "$name"); then
		sed -i "/\"name\": \"$name\"/d" "$dest/datasets.jsonl"
		make_one "$name" "$exe"
	else
		absent+=("${packages[$name]}")
		echo "$name is not installed: left out"
	fi
done
[ ${#absent[@]} -eq 0 ] || echo "for what was left out: apt-get install ${absent[*]}"
