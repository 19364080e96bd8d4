import { BerthError } from "@berth/protocol/errors"
import { type Backend, type Call, DEADLINES_MS } from "../backend.ts"
import { withinDeadline } from "../call.ts"
import type { OnFence } from "../fence-watch.ts"
import { frameBackend } from "../frame.ts"
import { openExitWatchers } from "./announce.ts"
import { openParts, type PartsOptions } from "./open-parts.ts"
import { embeddedOperations } from "./operations.ts"
import { asBackendError } from "./system/files-error.ts"

export interface EmbeddedOptions extends PartsOptions {
  /** Called when the fence of sandboxes was gone. */
  readonly onFence?: OnFence
}

/** Opens the backend that makes sandboxes by an OCI runtime of this host, without any daemon. */
export const openEmbedded = async (options: EmbeddedOptions, call: Call = {}): Promise<Backend> =>
  withinDeadline("backend.open", DEADLINES_MS.describe, call, async (signal) => {
    requireRoot()
    const parts = await openParts(options, signal)
    const watchers = openExitWatchers(parts.exits, parts.cgroups)
    return frameBackend(embeddedOperations(parts, watchers), {
      installation: options.installation,
      watchers,
      asBackendError,
      onFence: options.onFence,
    })
  })

const requireRoot = (): void => {
  if (process.geteuid?.() === 0) return
  throw new BerthError("backend.unavailable", "embedded sandboxes need a server that root runs", {
    details: { user: process.geteuid?.() },
  })
}
