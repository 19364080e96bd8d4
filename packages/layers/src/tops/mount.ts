import { relative } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { LayerId, TopId } from "@berth/protocol/ids"
import type { Layout } from "../io/layout.ts"
import { readLayer } from "../stacks/layer.ts"
import { readTop } from "../stacks/read.ts"
import type { Context } from "../store/context.ts"

/**
 * The mount of a top on its stack: `mount -t overlay overlay -o options target`, by root of the host, in `cwd`, with
 * `env`. All paths are relative to `cwd`.
 */
export interface OverlayMount {
  readonly cwd: string
  /** The lower directories, highest first, as the kernel wants them. */
  readonly lower: readonly string[]
  readonly upper: string
  readonly work: string
  readonly options: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/**
 * mount(8) from util-linux 2.39 on prefers a kernel interface that takes 256 bytes an option, which a few
 * layers exceed.
 */
export const MOUNT_ENV = { LIBMOUNT_FORCE_MOUNT2: "always" } as const

/**
 * The most bytes of mount options: the kernel takes one page of them, with a zero at its end, and pages are at least
 * this long.
 */
const MAX_OPTION_BYTES = 4_095

/**
 * Options that are set one by one, since the kernel's defaults differ by distribution. redirect_dir lets a directory of
 * a lower layer be renamed; with metacopy or index a layer would mean something only to the very mount that made it.
 */
const FIXED_OPTIONS = ["index=off", "metacopy=off", "nfs_export=off", "xino=off"]

/** Gives the mount of a stack's top. The record of the top, not the caller, says on which layers. */
export const overlayMount = async (context: Context, top: TopId): Promise<OverlayMount> => {
  const { layout, flavour } = context
  const record = await readTop(context, top)
  await Promise.all(record.parents.map((layer) => readLayer(context, layer)))
  const paths = layout.top(top)
  const within = (path: string) => relative(layout.root, path)
  const lower = lowerOf(layout, record.parents)
  const upper = within(paths.tree)
  const work = within(paths.work)
  const options = [
    ...(flavour === "trusted" ? ["redirect_dir=on"] : ["userxattr"]),
    ...FIXED_OPTIONS,
    `lowerdir=${lower.join(":")}`,
    `upperdir=${upper}`,
    `workdir=${work}`,
  ]
  assertFitsIntoPage(options)
  return { cwd: layout.root, lower, upper, work, options, env: MOUNT_ENV }
}

/** The options that show frozen layers alone, read-only. The kernel wants two directories at least. */
export const readOnlyOptions = (
  { layout, flavour }: Context,
  layers: readonly LayerId[],
): string => {
  const lower = lowerOf(layout, layers)
  if (lower.length < 2) lower.push(relative(layout.root, layout.empty))
  const options = [
    "ro",
    ...(flavour === "trusted" ? ["redirect_dir=follow"] : ["userxattr"]),
    ...FIXED_OPTIONS,
    `lowerdir=${lower.join(":")}`,
  ]
  assertFitsIntoPage(options)
  return options.join(",")
}

const lowerOf = (layout: Layout, layers: readonly LayerId[]): string[] => {
  const trees = layers.map((layer) => layout.layer(layer).tree).reverse()
  return (trees.length === 0 ? [layout.empty] : trees).map((tree) => relative(layout.root, tree))
}

const assertFitsIntoPage = (options: readonly string[]): void => {
  const bytes = options.join(",").length
  if (bytes <= MAX_OPTION_BYTES) return
  throw new BerthError("layers.too_deep", "the layers do not fit into a mount's options", {
    details: { bytes, most: MAX_OPTION_BYTES },
  })
}
