import { settleAll } from "@berth/host/settle-all"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import type { Ipv4Range } from "@berth/protocol/network"
import { z } from "zod"
import type { Engine } from "../engine/engine.ts"
import { ours } from "../engine/names.ts"
import { type Bridge, createBridge, removeBridge } from "./bridge.ts"
import { listedNames, normalised } from "./names.ts"
import { NetworkAnswer } from "./wanted.ts"

/**
 * The bridges of sandboxes with the policy `open`: one for all that have the internet alone, and one for each list of
 * ranges that sandboxes may reach beside it. So the bridge that a packet comes from tells what its sandbox may reach;
 * an address would not, since the next sandbox gets it one day. A bridge with a list goes with its last sandbox.
 */
export interface SandboxNetwork {
  /** Makes the bridge of the sandboxes that have the internet alone. */
  ensure(signal: AbortSignal): Promise<void>
  /** Restores fences that sandboxes need and somebody took away. Returns whether there was one. */
  restore(signal: AbortSignal): Promise<boolean>
  /** Called when the engine was away: the next `ensure` looks again. */
  forget(): void
  /** The bridge that this sandbox is, or will be, on. */
  join(sandbox: SandboxId, allow: readonly Ipv4Range[]): Bridge
  leave(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** Removes bridges with lists that no sandbox has joined: a crash left them. */
  sweep(signal: AbortSignal): Promise<void>
}

/**
 * Opens the bridges. Where no rules can be set (not `fenced`), there is one bridge, from which everything can be
 * reached.
 */
export const createNetwork = (
  engine: Engine,
  installation: InstallationId,
  { fenced = true }: { readonly fenced?: boolean } = {},
): SandboxNetwork => {
  const plain = createBridge(engine, installation, [], fenced)
  const listed = new Map<string, Bridge>()
  const members = new Map<SandboxId, Bridge>()

  const bridgeFor = (allow: readonly Ipv4Range[]): Bridge => {
    if (allow.length === 0 || !fenced) return plain
    const key = normalised(allow).join(" ")
    const bridge = listed.get(key) ?? createBridge(engine, installation, allow, fenced)
    listed.set(key, bridge)
    return bridge
  }

  return {
    ensure: plain.ensure,
    async restore(signal) {
      const joined = [...new Set(members.values())]
      const restored = await Promise.all(joined.map((bridge) => bridge.restore(signal)))
      return restored.includes(true)
    },
    forget() {
      for (const bridge of [plain, ...listed.values()]) bridge.forget()
    },
    join(sandbox, allow) {
      const bridge = bridgeFor(allow)
      members.set(sandbox, bridge)
      return bridge
    },
    async leave(sandbox, signal) {
      const bridge = members.get(sandbox)
      members.delete(sandbox)
      if (bridge === undefined || bridge === plain) return
      if ([...members.values()].includes(bridge)) return
      await bridge.release(signal).catch((failure) => {
        // Keeps the membership, so that the next attempt to remove the sandbox releases the bridge.
        members.set(sandbox, bridge)
        throw failure
      })
    },
    async sweep(signal) {
      const query = { filters: { label: [ours(installation)] } }
      const request = { method: "GET", path: "/networks", query } as const
      const found = await engine.read(request, z.array(NetworkAnswer), signal)
      const joined = new Set([...members.values()].map(({ name }) => name))
      const unused = found
        .filter(({ Name }) => !joined.has(Name))
        .map(({ Name }) => listedNames(installation, Name))
        .filter((names) => names !== undefined)
      await settleAll(unused.map((names) => removeBridge(engine, names, signal)))
    },
  }
}
