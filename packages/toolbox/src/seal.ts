import { lstatSync } from "node:fs"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { ToolboxId } from "@berth/protocol/toolbox"
import { z } from "zod"
import { fingerprint } from "./fingerprint.ts"
import { type Layout, namesIn } from "./layout.ts"
import { walk } from "./walk.ts"

/**
 * A seal: the fingerprint of a toolbox when its contents were last compared with its manifest, and that of its inputs.
 * A seal saves reading half a gigabyte before each use. It is never needed: a seal that is missing, torn or out of date
 * only makes the contents be compared again.
 */
const Seal = z.strictObject({
  tree: z.string(),
  /** Absent if the toolbox was compared without being built. */
  inputs: z.string().optional(),
})
type Seal = z.infer<typeof Seal>

/** Records the fingerprint of a toolbox whose contents are right. It is no failure if that cannot be written. */
export const writeSeal = async (
  layout: Layout,
  id: ToolboxId,
  { inputs, signal }: { inputs?: string | undefined; signal: AbortSignal },
): Promise<void> => {
  const made = inputs ?? (await readSeal(layout, id))?.inputs
  try {
    const tree = await fingerprintTree(layout.toolbox(id), signal)
    const seal: Seal = { tree, ...(made !== undefined && { inputs: made }) }
    await mkdir(layout.seals, { recursive: true })
    await writeFile(layout.seal(id), `${JSON.stringify(seal)}\n`)
  } catch {
    signal.throwIfAborted()
  }
}

/** Whether the toolbox is as it was when its contents were last compared. */
export const sealHolds = async (
  layout: Layout,
  id: ToolboxId,
  signal: AbortSignal,
): Promise<boolean> => {
  const seal = await readSeal(layout, id)
  if (seal === undefined) return false
  try {
    return seal.tree === (await fingerprintTree(layout.toolbox(id), signal))
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return false
    throw thrown
  }
}

/** The toolbox that was made from inputs with this fingerprint. */
export const madeFrom = async (
  layout: Layout,
  inputs: string | undefined,
): Promise<ToolboxId | undefined> => {
  if (inputs === undefined) return undefined
  for (const id of await sealed(layout)) {
    if ((await readSeal(layout, id))?.inputs === inputs) return id
  }
  return undefined
}

/** The ids that have a seal. */
export const sealed = async (layout: Layout): Promise<ToolboxId[]> => {
  const names = await namesIn(layout.seals)
  return names.flatMap((name) => {
    const id = ToolboxId.safeParse(name.replace(/\.json$/, ""))
    return id.success ? [id.data] : []
  })
}

const readSeal = async (layout: Layout, id: ToolboxId): Promise<Seal | undefined> => {
  try {
    return Seal.parse(JSON.parse(await readFile(layout.seal(id), "utf8")))
  } catch {
    return undefined
  }
}

const fingerprintTree = async (tree: string, signal: AbortSignal): Promise<string> => {
  const top = { name: "", stats: lstatSync(tree, { bigint: true }) }
  const below = (await walk(tree, signal)).map(({ path, stats }) => ({ name: path, stats }))
  return fingerprint([top, ...below])
}
