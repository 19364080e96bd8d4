import { relative } from "node:path"
import type { LayerId } from "@berth/protocol/ids"
import type { Context } from "../context.ts"
import { runProgram } from "../programs.ts"
import { MOUNT_ENV, readOnlyOptions } from "../tops/mount.ts"
import { COPY } from "./copy.ts"

export interface MergedPaths {
  /** An empty directory to mount on. */
  readonly merged: string
  /** Does not exist yet. */
  readonly tree: string
}

/**
 * Copies what a stack of two layers or more shows. The mount is in a namespace of the copying process
 * alone and ends with it, so nothing stays mounted after a crash.
 */
export const copyMerged = async (
  context: Context,
  layers: readonly LayerId[],
  { merged, tree }: MergedPaths,
  signal?: AbortSignal,
): Promise<void> => {
  const { root } = context.layout
  const options = readOnlyOptions(context, layers)
  const [from, to] = [relative(root, merged), relative(root, tree)]
  const inNamespace = ["unshare", "--mount", "--propagation=private"] as const
  await runProgram(
    [...inNamespace, "sh", "-ec", MOUNT_AND_RUN, "sh", options, from, ...COPY, "--", from, to],
    { signal, on: tree, cwd: root, env: MOUNT_ENV },
  )
}

const MOUNT_AND_RUN = 'mount -t overlay overlay -o "$1" "$2"; shift 2; exec "$@"'
