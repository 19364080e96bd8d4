import { setTimeout as pause } from "node:timers/promises"
import { benchmark } from "../benchmark.ts"
import { KNOWN, makeKnown, RUNNING } from "../fixtures/known.ts"
import { residentMb } from "../fixtures/memory.ts"
import { makeDataDir, type StartedServer, startServer } from "../fixtures/served.ts"
import { median } from "../statistics.ts"

/** Time to wait: a start leaves garbage, which is collected after the server has been idle for a while. */
const IDLE_MS = 10_000
/** Time limit of a call. A start on a busy machine takes long, which is not what is measured. */
const DEADLINE_MS = 120_000
const BYTES_A_MB = 1024 * 1024

/** The memory that sandboxes add to the process. An empty server takes a good part already; the note has the whole. */
export default benchmark({
  what: `resident memory of a server that knows ${KNOWN} sandboxes, each with a session, of which ${RUNNING} run − that of an empty server, both divided by ${KNOWN}`,
  unit: "bytes",
  bound: { of: "difference", atMost: 150_000 },
  statistic: "median",
  runs: 7,
  deadlineMs: 30 * 60_000,
  prepare: async (context) => ({
    known: await makeKnown(context),
    empty: await makeDataDir(context),
    wholeMb: { known: [] as number[], empty: [] as number[] },
  }),
  ours: async ({ known, wholeMb }, signal) => {
    const server = await startServer(known, [], signal)
    try {
      await server.client.reconcile({ signal })
      const call = { signal, deadlineMs: DEADLINE_MS }
      const { length } = await server.client.sandboxes.list(call)
      if (length !== KNOWN) throw new Error(`the server lists ${length} of ${KNOWN}`)
      const sessions = await server.client.sessions.list(call)
      if (sessions.length !== KNOWN) throw new Error(`the server has ${sessions.length} sessions`)
      return await dividedBytes(server, wholeMb.known, signal)
    } finally {
      await server.stop()
    }
  },
  other: async ({ empty, wholeMb }, signal) => {
    const server = await startServer(empty, [], signal)
    try {
      await server.client.reconcile({ signal })
      return await dividedBytes(server, wholeMb.empty, signal)
    } finally {
      await server.stop()
    }
  },
  note: ({ wholeMb: { known, empty } }) =>
    `undivided: ${said(known)}, of which an empty server takes ${said(empty)}`,
})

const said = (samples: readonly number[]): string => `${Math.round(median(samples))} MB`

/** Divides the memory by the number of sandboxes, and keeps the whole figure for the note. */
const dividedBytes = async (
  { pid }: StartedServer,
  wholeMb: number[],
  signal: AbortSignal,
): Promise<number> => {
  await pause(IDLE_MS, undefined, { signal })
  const mb = residentMb(pid)
  wholeMb.push(mb)
  return (mb * BYTES_A_MB) / KNOWN
}
