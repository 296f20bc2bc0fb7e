#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# info tells, before anything is decoded, which images are there, missing or of another build, and their shares.
. "$SRC/tests/cli/lib.sh" || exit 1
cp -r "$data" capture
chmod -R u+w capture
image=$(ls capture/images)

run info capture
same "exit code" "$code" 0
like "streams" "$out" '^stream capture:tid1 bytes [0-9]+ path .*capture/streams/tid1\.pt
image 0x401000-0x[0-9a-f]+ offset 0x1000 found share 100\.0% pid 1 build-id none path .*'"$image"'
unmapped share 0\.0% of [1-9][0-9]* addresses$'
# A moved capture needs nothing of the old place.
mkdir elsewhere && mv capture elsewhere/moved
run digest -q elsewhere/moved
expect 0 "stream elsewhere/moved:tid1 $truth" ""
# Without the image.
mv elsewhere/moved/images/"$image" away
run info elsewhere/moved
like "missing" "$out" '.*missing share 100\.0% pid 1 build-id none path.*'
run digest -q elsewhere/moved
same "exit code" "$code" 0
like "nothing decoded" "$out" '^stream elsewhere/moved:tid1 instructions 0 digest 0x0000000000000000$'
run digest --strict elsewhere/moved
same "exit code with --strict" "$code" 3
like "the warning" "$err" '.*1 mapped image is missing.*'
# What an option names is mapped into the processes of a capture, too.
run digest -q elsewhere/moved --elf away
same "what an option gives" "$out" "stream elsewhere/moved:tid1 $truth"
# Another image than the one recorded.
cp /bin/true elsewhere/moved/images/"$image"
sed -i 's|"offset": [^,]*,|&"build_id": "00112233",|' elsewhere/moved/capture.json
run info elsewhere/moved
like "other build" "$out" '.*other-build-id share.*'
# A trace that is not what capture.json says; nothing is written.
printf x >>elsewhere/moved/streams/tid1.pt
run digest elsewhere/moved -o result
same "exit code" "$code" 65
like "the error" "$err" '.*not what.*'
[ ! -e result ] || fail "there is output"
# A capture that reaches outside.
sed -i 's|"streams/tid1.pt"|"../moved/streams/tid1.pt"|' elsewhere/moved/capture.json
run digest elsewhere/moved
same "exit code" "$code" 65
like "the error" "$err" '.*leaves the capture'
finish
