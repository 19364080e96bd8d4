import { toWireError } from "@berth/protocol/errors"
import type { BootContext } from "../context.ts"
import type { Step } from "../step.ts"

/** Time limit. Listening takes a millisecond. */
const HOST_PORTS_LIMIT_MS = 10_000

/** Listens on the ports of the host that the workspace names. A port that is taken inside is a warning. */
export const hostPorts = (): Step<BootContext> => ({
  name: "host-ports",
  needs: [],
  required: false,
  timeoutMs: HOST_PORTS_LIMIT_MS,
  run: async ({ plan, hostPorts }, _signal, tell) => {
    const open: number[] = []
    for (const port of plan.hostPorts ?? [])
      try {
        await hostPorts.listen(port)
        open.push(port)
      } catch (thrown) {
        const { details, message } = toWireError(thrown)
        const why = details.systemSaid ?? message
        tell.warn(`port ${port} of the host is not reached from inside: ${why}`)
      }
    if (open.length === 0) return { skipped: "no port could be listened on" }
    return { did: `127.0.0.1 leads to the host at ${open.join(", ")}` }
  },
})
