import { connectTo } from "./bridge/address.ts"
import { openBridge } from "./bridge/bridge.ts"
import { readLeft } from "./bridge/left.ts"
import { putToSandbox } from "./bridge/put.ts"
import { readActivity } from "./bridge/read-activity.ts"
import { readTrace } from "./bridge/read-trace.ts"
import type { Bridges } from "./sandboxes/keeping/bridges.ts"

/** The connections to sandboxes whose socket lies in a directory of this host. */
export const bridges: Bridges = {
  open: openBridge,
  dial: ({ socket: path }, signal) => connectTo({ path }, signal),
  put: ({ socket: path, token }, target, body, signal) =>
    putToSandbox({ address: { path }, token, path: target, body }, signal),
  left: readLeft,
  trace: readTrace,
  activity: (shared, change, signal) => readActivity(shared, change ?? {}, signal),
}
