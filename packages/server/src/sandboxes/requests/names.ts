import type { Backend } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { NamedSandbox } from "@berth/protocol/sandboxes"
import type { Rows } from "../state/rows.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"

export interface NamesParts {
  readonly rows: Pick<Rows, "named" | "current">
  readonly backend: Pick<Backend, "list">
  /** The current sandbox of a workspace, made and booted if there is none. */
  readonly start: (workspace: Slug, signal: AbortSignal) => Promise<SandboxId>
}

export interface NameOptions {
  /** Among several sandboxes of that name, chooses the quarantined ones; otherwise the others. */
  readonly quarantined: boolean
  /** Starts a stopped workspace again; the answer is its new sandbox. */
  readonly start: boolean
}

/** Resolves the names by which people call sandboxes. */
export interface Names {
  /** The sandbox that an id leads to: the current one of its workspace, where the id is of an earlier one. */
  current(sandbox: SandboxId): Promise<SandboxId>
  /** The one sandbox of that name: an id, the beginning of an id, or a workspace. */
  named(name: string, options: NameOptions, signal: AbortSignal): Promise<NamedSandbox>
}

export const openNames = ({ rows, backend, start: startOf }: NamesParts): Names => {
  const leadOn = async (found: readonly SandboxRow[]): Promise<Led[]> => {
    const led = new Map<SandboxId, Led>()
    for (const row of latestOfEach(found)) {
      const to = (await rows.current(row.id)) ?? row
      led.set(to.id, { row: to, from: row })
    }
    return [...led.values()]
  }

  /** Sandboxes that the store does not know yet. */
  const strangers = async (name: string): Promise<SandboxId[]> =>
    (await backend.list())
      .filter(({ identity: { sandbox, workspace } }) => isCalled(name, sandbox, workspace))
      .map(({ identity }) => identity.sandbox)

  return {
    current: async (sandbox) => (await rows.current(sandbox))?.id ?? sandbox,
    named: async (name, { quarantined, start }, signal) => {
      const led = await leadOn(await rows.named(name))
      const isMeant = ({ row }: Led) => (row.phase === "quarantined") === quarantined
      const there = led.filter(({ row }) => !(row.isDetached && row.phase === "gone"))
      const choices = [there.filter(isMeant), there, led].find((some) => some.length > 0) ?? []
      const [only] = choices
      if (only !== undefined && choices.length === 1) {
        const { row, from } = only
        const isStopped = isEarlier(row)
        const sandbox = start && isStopped ? await startOf(row.workspace, signal) : row.id
        // The name of a workspace means no sandbox of it in particular.
        const isOther = sandbox !== from.id && row.workspace !== name
        return isOther ? { sandbox, earlier: from.id } : { sandbox }
      }
      const ids = only === undefined ? await strangers(name) : choices.map(({ row }) => row.id)
      const [stranger] = ids
      if (stranger !== undefined && ids.length === 1) return { sandbox: stranger }
      throw ids.length === 0 ? nobody(name) : ambiguous(name, ids)
    },
  }
}

/** A sandbox, and the named one, whose place it may have taken. */
interface Led {
  readonly row: SandboxRow
  readonly from: SandboxRow
}

/** Keeps one ended row of each workspace: all of them lead to the same sandbox. */
const latestOfEach = (found: readonly SandboxRow[]): SandboxRow[] => {
  const earlier = new Map(found.filter(isEarlier).map((row) => [row.workspace, row]))
  return [...earlier.values(), ...found.filter((row) => !isEarlier(row))]
}

/** Whether another sandbox takes this one's place, or will with the next use. */
const isEarlier = ({ phase, isDetached }: SandboxRow): boolean =>
  !isDetached && (phase === "gone" || phase === "stopping")

const isCalled = (name: string, sandbox: SandboxId, workspace: string): boolean =>
  workspace === name || (name.startsWith("sb-") && sandbox.startsWith(name))

const nobody = (name: string): BerthError =>
  new BerthError("not_found", `there is no sandbox ${name}`, { details: { name } })

const ambiguous = (name: string, ids: readonly SandboxId[]): BerthError =>
  new BerthError("input.usage", `${name} can be any of ${ids.join(", ")}`, { details: { name } })
