import { BerthError } from "@berth/protocol/errors"
import type {
  ToolboxId,
  ToolboxManifest,
  ToolboxReport,
  ToolboxSummary,
} from "@berth/protocol/toolbox"
import { type BuildCall, type Built, build, idMadeFrom } from "./build.ts"
import { collect } from "./collect.ts"
import type { Call, Context } from "./context.ts"
import type { ToolboxInput } from "./inputs/input.ts"
import { inspect } from "./inspect.ts"
import { toolboxError } from "./io-error.ts"
import { layoutAt } from "./layout.ts"
import { list, listIds } from "./list.ts"

export interface ToolboxesOptions {
  /** The directory of the toolboxes. Made when the first one is built. */
  readonly root: string
  readonly arch: ToolboxManifest["arch"]
  /** Called with every step after which a crash must do no harm. */
  readonly at?: (step: string) => void | Promise<void>
}

/** A toolbox that is what was built, and may be mounted. */
export interface Toolbox {
  readonly id: ToolboxId
  readonly directory: string
  readonly manifest: ToolboxManifest
}

export interface BuiltToolbox extends Toolbox, Pick<Built, "outcome" | "problems"> {}

/** The toolboxes of a data directory. Any number of processes may use them at once. */
export interface Toolboxes {
  /** Gives the toolbox of these inputs. Makes it if it is missing or was changed. */
  build(inputs: readonly ToolboxInput[], call: BuildCall): Promise<BuiltToolbox>
  /** Gives a toolbox to mount. Refuses one that was changed since it was built. */
  open(id: ToolboxId, call: Call): Promise<Toolbox>
  /** The ids of the toolboxes that were made from these inputs, as they look now. */
  present(of: readonly (readonly ToolboxInput[])[], call: Call): Promise<ToolboxId[]>
  list(call: Call): Promise<ToolboxSummary[]>
  ids(): Promise<ToolboxId[]>
  /** Reads all of a toolbox, and reports every difference from what was built. */
  verify(id: ToolboxId, call: Call): Promise<ToolboxReport>
  /** Removes all toolboxes but these, and returns the removed ones. The current one must be among those to keep. */
  collect(inUse: ReadonlySet<ToolboxId>): Promise<ToolboxId[]>
}

export const openToolboxes = ({ root, arch, at = () => {} }: ToolboxesOptions): Toolboxes => {
  const layout = layoutAt(root)
  const context: Context = { layout, arch, at }
  return {
    build: (inputs, call) =>
      typed("building the toolbox", call, async () => {
        const { manifest, ...rest } = await build(context, inputs, call)
        return { id: manifest.id, directory: layout.toolbox(manifest.id), manifest, ...rest }
      }),
    open: (id, call) =>
      typed("opening the toolbox", call, async () => {
        const found = await inspect(context, id, call)
        if (found.state === "absent") throw unknown(id)
        if (found.state === "changed") {
          const { problems } = found
          const message = `the toolbox ${id} was changed after it was built`
          throw new BerthError("toolbox.changed", message, { details: { id, problems } })
        }
        return { id, directory: layout.toolbox(id), manifest: found.manifest }
      }),
    present: (of, call) =>
      typed("looking for toolboxes", call, async () => {
        const ids = await Promise.all(of.map((inputs) => idMadeFrom(context, inputs, call)))
        return ids.filter((id) => id !== undefined)
      }),
    list: (call) => typed("listing the toolboxes", call, () => list(context, call)),
    ids: () => typed("listing the toolboxes", {}, () => listIds(context)),
    verify: (id, call) => typed("verifying the toolbox", call, () => verify(context, id, call)),
    collect: (inUse) => typed("removing toolboxes", {}, () => collect(context, inUse)),
  }
}

const verify = async (context: Context, id: ToolboxId, call: Call): Promise<ToolboxReport> => {
  const found = await inspect(context, id, { ...call, thoroughly: true })
  if (found.state === "absent") throw unknown(id)
  const listed = found.manifest?.files ?? []
  return {
    id,
    status: found.state,
    files: listed.length,
    bytes: listed.reduce((sum, file) => sum + (file.kind === "file" ? file.bytes : 0), 0),
    problems: found.state === "changed" ? [...found.problems] : [],
  }
}

const unknown = (id: ToolboxId): BerthError =>
  new BerthError("toolbox.unknown", `there is no toolbox ${id}`, { details: { id } })

const typed = async <Result>(
  doing: string,
  { signal }: Partial<Call>,
  work: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await work()
  } catch (thrown) {
    if (signal?.aborted)
      throw new BerthError("cancelled", `${doing} was cancelled`, { cause: thrown })
    throw toolboxError(thrown, doing)
  }
}
