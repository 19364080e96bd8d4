import type { SandboxId } from "@berth/protocol/ids"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import type { ObservedSandbox } from "../backend.ts"
import type { Startable } from "./engine/observe.ts"
import type { Parts } from "./parts.ts"

/**
 * Containers that this server has made and nobody has touched since. The engine need not be asked about them before
 * their start.
 */
export interface Fresh {
  add(spec: SandboxSpec, seen: ObservedSandbox): void
  /** Gives a container once: after that, the engine knows better. */
  take(sandbox: SandboxId): Promise<Startable | undefined>
  drop(sandbox: SandboxId): void
}

export const openFresh = ({ directories, network }: Parts): Fresh => {
  const all = new Map<SandboxId, Omit<Startable, "engineId">>()
  return {
    add({ identity: { sandbox }, config }, seen) {
      if (seen.state !== "created") return
      if (config.network.kind === "none") all.set(sandbox, { ...seen, network: "none", allow: [] })
      else {
        const { allow } = config.network
        all.set(sandbox, { ...seen, network: network.join(sandbox, allow).name, allow })
      }
    },
    async take(sandbox) {
      const made = all.get(sandbox)
      all.delete(sandbox)
      const note = made && (await directories.read(sandbox))
      return made && note && { ...made, engineId: note.engineId }
    },
    drop: (sandbox) => {
      all.delete(sandbox)
    },
  }
}
