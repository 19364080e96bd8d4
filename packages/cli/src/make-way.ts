import { BerthError } from "@berth/protocol/errors"
import { isThinking } from "@berth/protocol/lease"
import type { Client } from "@berth/sdk/client"

/**
 * Stops the sandbox of a workspace that changes, if it is kept only for sessions that may go on: whoever changes it
 * wants it changed now, and they go on in the next one.
 */
export const makeWay = async (client: Client, workspace: string): Promise<void> => {
  for (const { identity, leases } of await client.sandboxes.list()) {
    if (identity.workspace !== workspace || leases.length === 0) continue
    if (!leases.every(isThinking)) continue
    try {
      await client.sandboxes.at(identity.sandbox).stop()
    } catch (thrown) {
      // Somebody uses it after all, or it has gone: the server says whom it waits for.
      const isExpected = thrown instanceof BerthError && EXPECTED.has(thrown.code)
      if (!isExpected) throw thrown
    }
  }
}

const EXPECTED: ReadonlySet<string> = new Set(["sandbox.in_use", "sandbox.ended", "not_found"])
