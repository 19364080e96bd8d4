import { join } from "node:path"
import { run } from "@berth/host/run"
import { LISTS } from "./changes.ts"
import { KEEPING_ALL } from "./copy.ts"
import { type CopyCall, runCopying } from "./run-copying.ts"

/** Runs a shell in a mount namespace of its own, which ends with it: nothing stays mounted after a crash. */
const APART = ["unshare", "--mount", "--propagation=private", "sh", "-ec"] as const

/** A shell function that makes the kernel follow no link in a directory, whoever looks up a path. */
const SHUT = `shut() { mount --bind "$1" "$1" && mount -o remount,bind,nosymfollow "$1"; }`

const PROBE = `${SHUT}
mkdir -p "$1/probe"; ln -sfn . "$1/probe/link"
shut "$1/probe"
test ! -e "$1/probe/link/link"`

/**
 * Whether links can be shut on this host (Linux 5.10, util-linux 2.38). An older host ignores the option, so it is
 * tried.
 */
export const canShutLinks = async (directory: string, signal: AbortSignal): Promise<boolean> =>
  (await run([...APART, PROBE, "sh", directory], { signal })).status === 0

const TAR_OUT =
  "tar -c --format=pax --pax-option=delete=atime,delete=ctime --sparse --numeric-owner --xattrs --xattrs-include='*' --no-recursion --null"
/** Names and links are unpacked unchanged: no path leads out of a tree in which no link is followed. */
const TAR_IN = "tar -x -v -P -p --same-owner --numeric-owner --xattrs --xattrs-include='*'"
/** Ends programs that the shell started together with it. */
const TIED = "setpriv --pdeathsig KILL --"
/** Tar's status 1 means that a file changed while it was read; that file is copied again. */
const COPY_LISTED = `${SHUT}
from=$1 to=$2 lists=$3
shift 3
shut "$from"
shut "$to"
cd "$from"
rm -f "$lists/failed"
pass() {
  { ${TIED} ${TAR_OUT} -T "$lists/$1" -f - || test $? -eq 1 || : > "$lists/failed"; } |
    ${TIED} ${TAR_IN} -C "$to" -f - || : > "$lists/failed"
}
pass ${LISTS.small}
xargs -0 -r -a "$lists/${LISTS.large}" ${TIED} "$@" -t "$to" -- || : > "$lists/failed"
pass ${LISTS.directories}
test ! -e "$lists/failed"`

/**
 * Copies the listed files of a tree into its copy. A running sandbox may replace directories by links while they are
 * read, so programs that use paths do it where no link is followed.
 */
export const copyListed = (
  { tree, copy, lists }: { readonly tree: string; readonly copy: string; readonly lists: string },
  call: CopyCall,
): Promise<void> => {
  const cp = ["cp", ...KEEPING_ALL, "--verbose", "--remove-destination", "--parents"]
  return runCopying(
    [...APART, COPY_LISTED, "sh", tree, copy, lists, ...cp],
    { to: join(copy, "."), on: tree },
    call,
  )
}
