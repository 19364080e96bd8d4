import { lstat } from "node:fs/promises"
import { join } from "node:path"
import { PLAIN_ENV } from "@berth/host/child"
import { run } from "@berth/host/run"
import { MOUNT_ENV } from "@berth/layers/tops/mount"
import { BerthError } from "@berth/protocol/errors"
import { AGENT_USER } from "@berth/protocol/inside"
import type { Overlay } from "@berth/protocol/sandbox"

/**
 * Makes a directory in the files of a workspace that no sandbox has mounted yet, with its parents, owned by the user: a
 * mount there would make them root's. A link or a file in the way is refused, as it is the user's. Only the kernel can
 * tell what layers show together, so they are mounted in a mount namespace of their own.
 */
export const prepareInStack = async (
  overlay: Overlay,
  path: string,
  idBase: number,
  signal: AbortSignal,
): Promise<void> => {
  if (await isInTop(overlay, path)) return
  const owner = String(idBase + AGENT_USER.uid)
  const inNamespace = ["unshare", "--mount", "--propagation=private"] as const
  const { status, stderr } = await run(
    [...inNamespace, "sh", "-ec", MAKE, "sh", overlay.options.join(","), owner, path],
    { signal, cwd: overlay.base, env: { ...PLAIN_ENV, ...MOUNT_ENV } },
  )
  if (status === 0) return
  const engineSaid = stderr.trim()
  throw new BerthError("backend.mount_invalid", `${path} cannot be made: ${engineSaid}`, {
    details: { path, engineSaid },
  })
}

const isInTop = async ({ base, upper }: Overlay, path: string): Promise<boolean> => {
  let at = join(base, upper)
  for (const part of path.split("/")) {
    at = join(at, part)
    const isDirectory = await lstat(at).then(
      (found) => found.isDirectory(),
      () => false,
    )
    if (!isDirectory) return false
  }
  return true
}

/** The overlay is mounted over /tmp of the private mount namespace, where nobody else sees it. */
const MAKE = `
mount -t overlay overlay -o "$1" /tmp
cd /tmp
IFS=/
for part in $3; do
  if [ -L "$part" ] || { [ -e "$part" ] && [ ! -d "$part" ]; }; then
    echo "$part is no directory" >&2
    exit 1
  fi
  if [ ! -d "$part" ]; then
    mkdir -m 755 "$part"
    chown "$2:$2" "$part"
  fi
  cd -P "$part"
done
`
