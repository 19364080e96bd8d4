import { relative } from "node:path"
import type { LayerId } from "@berth/protocol/ids"
import { runProgram } from "../io/programs.ts"
import type { Context } from "../store/context.ts"
import { COPY } from "../trees/copy.ts"
import { MOUNT_ENV, readOnlyOptions } from "./mount.ts"

export interface MergedPaths {
  /** An empty directory to mount on. */
  readonly merged: string
  /** The target, which does not exist yet. */
  readonly tree: string
}

/** Copies the files that a stack shows. */
export const copyMerged = async (
  context: Context,
  layers: readonly LayerId[],
  { merged, tree }: MergedPaths,
  signal?: AbortSignal,
): Promise<void> => {
  const { root } = context.layout
  const copy = [...COPY, "--", relative(root, merged), relative(root, tree)]
  await runProgram(seeingMerged(context, layers, merged, copy), {
    signal,
    on: tree,
    cwd: root,
    env: MOUNT_ENV,
  })
}

/**
 * A command, for the store's root and MOUNT_ENV, that runs with the files of a stack mounted read-only on a directory.
 * The mount is in a namespace of the command alone and ends with it, so nothing stays mounted after a crash.
 */
export const seeingMerged = (
  context: Context,
  layers: readonly LayerId[],
  on: string,
  command: readonly string[],
): [string, ...string[]] => [
  ...(["unshare", "--mount", "--propagation=private", "sh", "-ec", MOUNT_AND_RUN, "sh"] as const),
  ...[readOnlyOptions(context, layers), relative(context.layout.root, on), ...command],
]

const MOUNT_AND_RUN = 'mount -t overlay overlay -o "$1" "$2"; shift 2; exec "$@"'
