import type { Attached, Claim, Claims } from "./claims.ts"
import { addText, deleteText, dropText, type RulesInput, tableText } from "./rules.ts"
import { ask, demand } from "./tool.ts"

/** The table may hold thousands of elements, and the host may be busy. */
const NFT_DEADLINE_MS = 10_000

export interface Table {
  /** Replaces it by what the claims say. */
  make(): Promise<void>
  add(claim: Attached): Promise<void>
  /** Removes the sandbox's elements, then its claim; with the last claim, the table. */
  remove(claim: Claim): Promise<void>
}

interface TableOptions {
  readonly claims: Claims
  readonly rules: () => Promise<RulesInput>
  /** Runs when the table goes, with what else stands for it on the host. */
  readonly onLast: () => Promise<void>
}

interface Batch {
  readonly joining: Map<string, Attached>
  readonly leaving: Map<string, Claim>
  anew: boolean
  readonly done: Promise<void>
}

/**
 * The firewall's table. One nft process runs at a time; what is asked for meanwhile goes together into the
 * next one. Whenever nft refuses a change, the table is not what the claims say (someone flushed it, or a
 * crash came in between), and it is made anew from them.
 */
export const createTable = ({ claims, rules, onLast }: TableOptions): Table => {
  let running: Promise<void> = Promise.resolve()
  let next: Batch | undefined

  const enqueue = (join: (batch: Batch) => void): Promise<void> => {
    next ??= open()
    join(next)
    return next.done
  }

  const open = (): Batch => {
    const batch: Batch = {
      joining: new Map(),
      leaving: new Map(),
      anew: false,
      done: running.then(() => {
        next = undefined
        return commit(batch)
      }),
    }
    running = batch.done.catch(() => {})
    return batch
  }

  const commit = async ({ joining, leaving, anew }: Batch): Promise<void> => {
    const input = await rules()
    const devices = await claims.devices()
    const isLast = devices.every((device) => leaving.has(device))
    if (isLast && !anew) {
      await nft(dropText(input.names))
      await onLast()
    } else {
      const changes = [
        ...[...leaving.values()].filter(isAttached).map((claim) => deleteText(input.names, claim)),
        ...[...joining.values()].map((claim) => addText(input.names, claim)),
      ].join("")
      if (anew || !(await accepted(changes))) await replace(input, leaving)
    }
    for (const { sandbox } of leaving.values()) await claims.release(sandbox)
  }

  const replace = async (input: RulesInput, leaving: Batch["leaving"]): Promise<void> => {
    const staying = (await claims.all()).filter(({ device }) => !leaving.has(device))
    await nft(tableText(input, staying.filter(isAttached)))
  }

  return {
    make: () =>
      enqueue((batch) => {
        batch.anew = true
      }),
    add: (claim) => enqueue(({ joining }) => joining.set(claim.device, claim)),
    remove: (claim) =>
      enqueue(({ joining, leaving }) => {
        joining.delete(claim.device)
        leaving.set(claim.device, claim)
      }),
  }
}

/** A batch belongs to all who joined it: no caller's signal ends it. */
const options = (input: string) => ({
  signal: new AbortController().signal,
  deadlineMs: NFT_DEADLINE_MS,
  input,
})

const nft = (text: string): Promise<string> => demand(["nft", "-f", "-"], options(text))

const accepted = async (text: string): Promise<boolean> =>
  text === "" || (await ask(["nft", "-f", "-"], options(text))).status === 0

const isAttached = (claim: Claim): claim is Attached => claim.allow !== undefined
