import type { Socket } from "node:net"
import { setTimeout as pause } from "node:timers/promises"
import type { BootMode, BootTrace } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId } from "@berth/protocol/ids"
import type { SandboxPhase } from "@berth/protocol/sandbox"
import type { SandboxView } from "@berth/protocol/sandboxes"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { EngineState, ObservedSandbox } from "../backends/backend.ts"
import { operation } from "../logging/operation.ts"
import type { Toolbox } from "../toolbox/store.ts"
import { begunBoot } from "./boot-summary.ts"
import { type KeepParts, Kept } from "./kept.ts"
import { dismiss, type LaunchParts, launch } from "./launch.ts"
import type { SandboxLink } from "./links.ts"

export interface SandboxesParts extends KeepParts, Omit<LaunchParts, "toolbox"> {
  /** The one that new sandboxes get: found or built when the first is made. */
  readonly toolbox: () => Promise<Pick<Toolbox, "id" | "directory">>
}

/** The sandboxes of an installation, each with a connection that is kept. They outlive whoever made them. */
export interface Sandboxes {
  /** Takes up what runs already. Once, before anything else. */
  adopt(signal: AbortSignal): Promise<void>
  /** Resolves when it has started; it boots on. */
  create(workspace: WorkspaceSpec, mode: BootMode, signal: AbortSignal): Promise<SandboxId>
  /** Oldest first. */
  list(signal: AbortSignal): Promise<SandboxView[]>
  get(sandbox: SandboxId, signal: AbortSignal): Promise<SandboxView>
  /** Resolves when it is ready, will never be, or the signal fires. */
  booted(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** Resolves when nothing is left of it. */
  remove(sandbox: SandboxId): Promise<void>
  trace(sandbox: SandboxId, signal: AbortSignal): Promise<BootTrace>
  /** A connection to what it serves, and the token that it asks for. Whoever gets it ends it. */
  dial(sandbox: SandboxId, signal: AbortSignal): Promise<{ socket: Socket; token: string }>
  /** What its engine says of it now; undefined: there is none. */
  stateOf(sandbox: SandboxId): Promise<EngineState | undefined>
  kept(sandbox: SandboxId): Kept
  /** Lets go of them all; they run on. */
  close(): Promise<void>
}

/** How long a sandbox has to end in order. */
const STOP_GRACE_MS = 10_000

/** One that has just been started listens in a moment; on a host that is busy, in a few. */
const DIAL_MS = 5_000
const DIAL_PAUSE_MS = 20

export const openSandboxes = (parts: SandboxesParts): Sandboxes => {
  const { backend, links, records, bridges, log } = parts
  const all = new Map<SandboxId, Kept>()
  const making = new Set<SandboxId>()
  const removing = new Map<SandboxId, Promise<void>>()
  const over = new AbortController()
  let watching: Promise<void> | undefined

  const need = (sandbox: SandboxId): Kept => {
    const kept = all.get(sandbox)
    if (kept !== undefined) return kept
    throw unknown(sandbox)
  }

  const linkOf = async (sandbox: SandboxId): Promise<SandboxLink> => {
    const link = all.get(sandbox)?.link ?? (await links.find(sandbox))
    if (link !== undefined) return link
    throw unknown(sandbox)
  }

  /** Whoever has ended is not connected to again. */
  const watch = async (): Promise<void> => {
    for await (const event of backend.watch(over.signal)) {
      if (event.kind === "exited") all.get(event.sandbox)?.exited()
      if (event.kind !== "resync") continue
      for (const { identity, state } of await backend.list())
        if (state === "exited") all.get(identity.sandbox)?.exited()
    }
  }
  const startWatching = () => {
    watching ??= watch().catch((err) => log.error({ op: "sandboxes.watch", err }, "not watched"))
  }

  const adoptOne = async ({ identity: { sandbox }, state }: ObservedSandbox) => {
    const [link, record] = await Promise.all([links.find(sandbox), records.read(sandbox)])
    if (link === undefined || record === undefined) return
    const lastSeen = await records.lastSeen(sandbox)
    const kept = new Kept(parts, { link, record, lastSeen, boot: undefined })
    all.set(sandbox, kept)
    if (state === "exited") kept.exited()
  }

  const remove = async (sandbox: SandboxId): Promise<void> => {
    const kept = all.get(sandbox)
    try {
      await dismiss(parts, sandbox, { graceMs: STOP_GRACE_MS })
      all.delete(sandbox)
    } finally {
      removing.delete(sandbox)
    }
    await kept?.close("was removed")
  }

  const view = (observed: ObservedSandbox): SandboxView => {
    const { identity, createdAt, exit, unheldLimits } = observed
    const kept = all.get(identity.sandbox)
    const phase = making.has(identity.sandbox)
      ? "creating"
      : removing.has(identity.sandbox)
        ? "stopping"
        : phaseOf(observed.state, kept)
    return {
      ...{ identity, phase, createdAt, unheldLimits: [...unheldLimits], warnings: [] },
      ...(exit && { exit }),
      boot: kept?.boot ?? null,
    }
  }

  /** A sandbox that does not answer is shown without its boot. */
  const readBoot = (kept: Kept, signal: AbortSignal) => kept.readBoot(signal).catch(() => {})

  return {
    adopt: (signal) =>
      operation(log, "sandboxes.adopt", {}, async (note) => {
        startWatching()
        const found = await backend.list({ signal })
        // One that cannot be taken up is shown as quarantined; the others go on.
        const adopted = await Promise.allSettled(found.map(adoptOne))
        const here = new Set(found.map(({ identity }) => identity.sandbox))
        const gone = (await links.list()).filter((sandbox) => !here.has(sandbox))
        for (const sandbox of gone) await links.remove(sandbox)
        const failed = adopted.find(({ status }) => status === "rejected")
        note({ sandboxes: all.size, found: found.length, linksRemoved: gone.length })
        if (failed?.status === "rejected")
          log.warn({ op: "sandboxes.adopt", err: failed.reason }, "a sandbox is not taken up")
      }),

    create: (workspace, mode, signal) => {
      const sandbox = newId.sandbox()
      const ids = { sandbox, workspace: workspace.slug, mode }
      return operation(log, "sandbox.create", ids, async () => {
        startWatching()
        const toolbox = await parts.toolbox()
        signal.throwIfAborted()
        const record = { workspace, mode }
        making.add(sandbox)
        try {
          await records.write(sandbox, record)
          const link = await launch({ ...parts, toolbox }, { ...record, sandbox }, signal)
          const boot = begunBoot(mode)
          all.set(sandbox, new Kept(parts, { link, record, lastSeen: 0, boot }))
          return sandbox
        } catch (thrown) {
          await links.remove(sandbox)
          throw thrown
        } finally {
          making.delete(sandbox)
        }
      })
    },

    list: async (signal) =>
      (await backend.list({ signal }))
        .map(view)
        .sort((one, other) => (one.createdAt < other.createdAt ? -1 : 1)),

    get: async (sandbox, signal) => {
      const kept = all.get(sandbox)
      if (kept !== undefined && kept.boot === undefined) await readBoot(kept, signal)
      const observed = await backend.inspect(sandbox, { signal })
      if (observed === undefined) throw unknown(sandbox)
      return view(observed)
    },

    booted: async (sandbox, signal) => {
      const kept = need(sandbox)
      if (kept.boot === undefined) await readBoot(kept, signal)
      const fired = Promise.withResolvers<void>()
      const onAbort = () => fired.resolve()
      signal.addEventListener("abort", onAbort)
      if (signal.aborted) onAbort()
      try {
        await Promise.race([kept.booted().catch(() => {}), fired.promise])
      } finally {
        signal.removeEventListener("abort", onAbort)
      }
    },

    remove: async (sandbox) => {
      const observed = removing.has(sandbox) ? true : await backend.inspect(sandbox)
      if (observed === undefined && !all.has(sandbox)) throw unknown(sandbox)
      const removal =
        removing.get(sandbox) ??
        operation(log, "sandbox.remove", { sandbox }, () => remove(sandbox))
      removing.set(sandbox, removal)
      await removal
    },

    trace: async (sandbox, signal) => bridges.trace(await linkOf(sandbox), signal),

    dial: async (sandbox, signal) => {
      const link = await linkOf(sandbox)
      for (let waitedMs = 0; ; waitedMs += DIAL_PAUSE_MS) {
        try {
          return { socket: await bridges.dial(link, signal), token: link.token }
        } catch (thrown) {
          const isEarly = thrown instanceof BerthError && thrown.code === "bridge.unreachable"
          if (!isEarly || waitedMs >= DIAL_MS) throw thrown
          const state = (await backend.inspect(sandbox, { signal }))?.state
          if (state === undefined || state === "exited") throw ended(sandbox, thrown)
          await pause(DIAL_PAUSE_MS, undefined, { signal })
        }
      }
    },

    stateOf: async (sandbox) => (await backend.inspect(sandbox))?.state,

    kept: need,

    close: async () => {
      over.abort()
      await Promise.all([...all.values()].map((kept) => kept.close("is left to itself")))
      await watching
    },
  }
}

const phaseOf = (state: EngineState, kept: Kept | undefined): SandboxPhase => {
  if (kept === undefined) return "quarantined"
  switch (state) {
    case "created":
      return "creating"
    case "running":
      return kept.boot && kept.boot.readyAtMs !== null ? "ready" : "booting"
    case "paused":
      return "paused"
    case "exited":
      return "gone"
  }
}

const ended = (sandbox: SandboxId, cause: unknown): BerthError =>
  new BerthError("backend.unknown_sandbox", `${sandbox} has ended`, { details: { sandbox }, cause })

const unknown = (sandbox: SandboxId): BerthError =>
  new BerthError("not_found", `there is no sandbox ${sandbox}`, { details: { sandbox } })
