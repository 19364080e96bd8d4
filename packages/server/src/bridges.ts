import { connectTo } from "@berth/bridge/address"
import { openBridge } from "@berth/bridge/bridge"
import { readLeft } from "@berth/bridge/left"
import { putToSandbox } from "@berth/bridge/put"
import { readActivity } from "@berth/bridge/read-activity"
import { readTrace } from "@berth/bridge/read-trace"
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
