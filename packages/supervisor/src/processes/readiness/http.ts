import { request } from "node:http"
import { untilOneSucceeds } from "./attempts.ts"
import { LOOPBACK } from "./port.ts"
import type { Readiness } from "./readiness.ts"

export interface HttpProbe {
  readonly port: number
  readonly host?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Default: any 2xx status. */
  readonly isReady?: (status: number) => boolean
}

/** Ready when a GET request gets the expected status. */
export const readyOnHttp = ({
  port,
  host = LOOPBACK,
  path = "/",
  headers = {},
  isReady = isSuccess,
}: HttpProbe): Readiness => ({
  description: `http://${host}:${port}${path} does not answer as it should`,
  wait: (_, signal) =>
    untilOneSucceeds(async (limit) => {
      const status = await statusOf({ host, port, path, headers }, limit)
      return status !== undefined && isReady(status)
    }, signal),
})

const isSuccess = (status: number): boolean => status >= 200 && status < 300

/** Opens a connection for each attempt, so that one that hangs blocks no other. */
const statusOf = (
  where: { host: string; port: number; path: string; headers: Readonly<Record<string, string>> },
  signal: AbortSignal,
): Promise<number | undefined> =>
  new Promise((resolve) => {
    const probe = request({ ...where, agent: false, signal })
    probe.once("response", (response) => {
      resolve(response.statusCode)
      probe.destroy()
    })
    // A destroyed request may still emit an error.
    probe.on("error", () => resolve(undefined))
    // An answer that is to be followed by another protocol ends without an error.
    probe.once("close", () => resolve(undefined))
    probe.end()
  })
