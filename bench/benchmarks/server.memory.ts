import { setTimeout as pause } from "node:timers/promises"
import { benchmark } from "../benchmark.ts"
import { KNOWN, makeKnown, RUNNING } from "../fixtures/known.ts"
import { residentMb } from "../fixtures/memory.ts"
import { makeDataDir, type StartedServer, startServer } from "../fixtures/served.ts"

/** A start leaves garbage, which is collected when the server has been idle for a while. */
const IDLE_MS = 10_000
/** A start on a busy machine takes long, which is not what is measured. */
const DEADLINE_MS = 120_000
const BYTES_A_MB = 1024 * 1024

/** The memory of the whole process, of which an empty server takes a good part: the rest is the sandboxes'. */
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
  }),
  ours: async ({ known }, signal) => {
    const server = await startServer(known, [], signal)
    try {
      await server.client.reconcile({ signal })
      const call = { signal, deadlineMs: DEADLINE_MS }
      const { length } = await server.client.sandboxes.list(call)
      if (length !== KNOWN) throw new Error(`the server lists ${length} of ${KNOWN}`)
      const sessions = await server.client.sessions.list(call)
      if (sessions.length !== KNOWN) throw new Error(`the server has ${sessions.length} sessions`)
      return await dividedBytes(server, signal)
    } finally {
      await server.stop()
    }
  },
  other: async ({ empty }, signal) => {
    const server = await startServer(empty, [], signal)
    try {
      await server.client.reconcile({ signal })
      return await dividedBytes(server, signal)
    } finally {
      await server.stop()
    }
  },
})

const dividedBytes = async ({ pid }: StartedServer, signal: AbortSignal): Promise<number> => {
  await pause(IDLE_MS, undefined, { signal })
  return (residentMb(pid) * BYTES_A_MB) / KNOWN
}
