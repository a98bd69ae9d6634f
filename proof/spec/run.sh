#!/bin/sh
# Checks breaker.pml with spin: the sound protocol must pass every claim, every injected fault must be found.
# Prints one line a run and closes with the figures; exits 1 if anything is not as it has to be.
# Needs spin and a C compiler (Debian: apt-get install spin gcc). About a minute and 1.5 GB of memory.
set -u
cd "$(dirname "$0")" || exit 1
model=$PWD/breaker.pml
for tool in spin gcc; do
  command -v "$tool" >/dev/null || { echo "spec: $tool is needed (Debian: apt-get install spin gcc)" >&2; exit 1; }
done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
cp "$model" .

runs=0 largest=0 faults=0 missed=0 bad=0

# check DEFINES [CLAIM]: searches the whole state space; sets errors, states and seconds. Without a claim it looks
# for broken assertions and dead ends, with one for an endless run that breaks it while every process gets its turn.
check() {
  # shellcheck disable=SC2086 # the defines are several words
  spin -a $1 breaker.pml >/dev/null || exit 1
  if [ -z "${2:-}" ]; then
    gcc -O2 -DSAFETY -DNOCLAIM -DNOREDUCE -DVECTORSZ=2048 -o pan pan.c || exit 1
    ./pan -m3000000 -w25 >out 2>&1
  else
    gcc -O2 -DNFAIR=4 -DVECTORSZ=2048 -o pan pan.c || exit 1
    ./pan -a -f -N "$2" -m3000000 -w24 >out 2>&1
  fi
  errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' out)
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out | awk '{ printf "%d", $1 }')
  seconds=$(sed -n 's/.*elapsed time \([0-9.]*\).*/\1/p' out)
  if grep -q 'max search depth too small\|out of memory\|aborted' out; then errors=cut; fi
  if [ "$errors" = 0 ] && grep -q 'Search not completed' out; then errors=cut; fi
  runs=$((runs + 1))
}

sound() { # DEFINES [CLAIM]: no error may be found
  check "$@"
  printf '%-8s %-42s %10d states %6s s  errors: %s\n' "${2:-safety}" "$1" "$states" "$seconds" "$errors"
  [ "$states" -gt "$largest" ] && largest=$states
  [ "$errors" = 0 ] || bad=$((bad + 1))
}

fault() { # NAME DEFINES [CLAIM]: an error must be found
  name=$1; shift
  check "-D$name $1" ${2:+"$2"}
  case $errors in
    0 | cut | '') verdict=MISSED missed=$((missed + 1)) ;;
    *) verdict=found faults=$((faults + 1)) ;;
  esac
  printf '%-8s %-42s %10d states %6s s  %s\n' "fault" "-D$name $1 ${2:-}" "$states" "$seconds" "$verdict"
}

sound "-DN=1 -DNEED=1 -DC=3 -DMANUAL"
sound "-DN=2 -DC=4"
sound "-DN=2 -DC=4 -DHANG=2"
sound "-DN=2 -DC=5 -DHANG=2 -DTRIP=3 -DMANUAL"
sound "-DN=2 -DC=4 -DHANG=2" nostuck
sound "-DN=2 -DC=4 -DHANG=2 -DNOIGN -DQUICK" leaves
sound "-DN=2 -DC=4 -DHANG=2" reprobe
sound "-DN=2 -DC=4 -DHANG=2 -DHEAL" heals

fault LATE    "-DN=2 -DC=4 -DHANG=2"
fault EXTRA   "-DN=2 -DC=4 -DHANG=2"
fault LEAK    "-DN=2 -DC=4 -DHANG=2"
fault LEAK    "-DN=2 -DC=4 -DHANG=2" nostuck
fault KEEP    "-DN=2 -DC=4 -DHANG=2"
fault TWICE   "-DN=2 -DC=4 -DHANG=2"
fault GASP    "-DN=2 -DC=4 -DHANG=2"
fault HOP     "-DN=2 -DC=4 -DHANG=2"
fault NOLAPSE "-DN=2 -DC=4 -DHANG=2" nostuck
fault NOLAPSE "-DN=2 -DC=4 -DHANG=2 -DHEAL" heals

echo "proof: spin: $runs runs, $bad with errors where none may be, largest $largest states; faults: $faults runs found them, $missed missed"
[ "$bad" = 0 ] && [ "$missed" = 0 ] && [ "$largest" -ge 3000000 ]
