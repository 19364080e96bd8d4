import { forgetConnections } from "../../connections/forget.ts"
import { connectionsMark, connectionsTexts } from "../../connections/rules.ts"
import type { Names } from "./names.ts"
import type { Attached } from "./reservations.ts"
import {
  addText,
  connectionsOf,
  deleteText,
  dropText,
  type RulesInput,
  tableText,
} from "./rules.ts"
import { ask, demand } from "./tool.ts"

/** The table may hold thousands of elements, and the host may be busy. */
const NFT_DEADLINE_MS = 10_000

export interface Table {
  /** Replaces the table, whatever it holds. */
  make(): Promise<void>
  add(reservation: Attached): Promise<void>
  remove(reservation: Attached): Promise<void>
  /** Removes the table, unless a sandbox needs it by the time that its turn comes. */
  drop(isUnused: () => boolean): Promise<void>
}

interface TableOptions {
  readonly rules: () => Promise<RulesInput>
  /** The sandboxes that must be in the table. */
  readonly attached: () => readonly Attached[]
  /** Called after each replacement, which may have brought another name server. */
  readonly onReplaced: (rules: RulesInput) => Promise<void>
}

/** The changes of one transaction. */
interface Batch {
  readonly changes: ((names: Names) => string)[]
  anew: boolean
  drop: (() => boolean) | undefined
  readonly done: Promise<void>
}

/**
 * The firewall's table, and beside it the one that bounds connections. One nft process runs at a time; changes that are
 * asked for meanwhile go together into the next one. If nft refuses a change, the table is not what it should be
 * (someone flushed it, or a crash came in between), and it is made anew.
 */
export const createTable = ({ rules, attached, onReplaced }: TableOptions): Table => {
  let running: Promise<void> = Promise.resolve()
  let next: Batch | undefined

  const enqueue = (join: (batch: Batch) => void): Promise<void> => {
    next ??= open()
    join(next)
    return next.done
  }

  const open = (): Batch => {
    const batch: Batch = {
      changes: [],
      anew: false,
      drop: undefined,
      done: running.then(() => {
        next = undefined
        return commit(batch)
      }),
    }
    running = batch.done.catch(() => {})
    return batch
  }

  const commit = async ({ changes, anew, drop }: Batch): Promise<void> => {
    const input = await rules()
    if (!anew && drop?.()) return nft(dropText(input.names))
    if (!anew && (await accepted(changes.map((change) => change(input.names)).join("")))) return
    await replace(input, attached())
    await onReplaced(input)
  }

  return {
    make: () =>
      enqueue((batch) => {
        batch.anew = true
      }),
    add: (reservation) =>
      enqueue(({ changes }) => changes.push((names) => addText(names, reservation))),
    remove: (reservation) =>
      enqueue(({ changes }) => changes.push((names) => deleteText(names, reservation))),
    drop: (isUnused) =>
      enqueue((batch) => {
        batch.drop = isUnused
      }),
  }
}

/** A batch belongs to all callers that joined it, so no caller's signal ends it. */
const options = (input: string) => ({
  signal: new AbortController().signal,
  deadlineMs: NFT_DEADLINE_MS,
  input,
})

const nft = async (text: string): Promise<void> => {
  await demand(["nft", "-f", "-"], options(text))
}

/**
 * Replaces the fence, and the table of connections only where that is not as it should be: its count of open connections
 * would be lost. If the whole table is gone, the kernel forgets the connections that the next one cannot count; if it was
 * made from earlier rules, the connections that are open go on.
 */
const replace = async (input: RulesInput, reservations: readonly Attached[]): Promise<void> => {
  const fence = tableText(input, reservations)
  const connections = connectionsOf(input)
  const { table } = connections
  if (await isListed("chain", "inet", table, connectionsMark(connections))) return nft(fence)
  const isOutdated = await isListed("table", "inet", table)
  const [bounding, plainly] = connectionsTexts(connections)
  if (!(await accepted(fence + bounding))) await nft(fence + plainly)
  if (isOutdated) return
  await forgetConnections(
    reservations.map(({ address }) => address),
    options("").signal,
  )
}

const isListed = async (...what: string[]): Promise<boolean> =>
  (await ask(["nft", "-t", "list", ...what], options(""))).status === 0

const accepted = async (text: string): Promise<boolean> =>
  text === "" || (await ask(["nft", "-f", "-"], options(text))).status === 0
