import { untilOneSucceeds } from "./attempts.ts"
import { accepts } from "./connect.ts"
import type { Readiness } from "./readiness.ts"

export const LOOPBACK = "127.0.0.1"

/** Ready when a TCP port accepts connections. Whether the program also answers is checked by `readyOnHttp`. */
export const readyOnPort = (port: number, host = LOOPBACK): Readiness => ({
  description: `nothing accepts connections on ${host}:${port}`,
  wait: (_, signal) => untilOneSucceeds((limit) => accepts({ host, port }, limit), signal),
})
