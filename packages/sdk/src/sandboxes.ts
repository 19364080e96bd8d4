import { BootTrace } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import {
  type CreateSandboxInput,
  MAX_WAIT_MS,
  SandboxList,
  SandboxView,
} from "@berth/protocol/sandboxes"
import { type CallOptions, type Connection, call, command } from "./call.ts"
import { type Commands, commandsOf } from "./commands.ts"
import { type Files, filesOf } from "./files.ts"
import { type Git, gitOf } from "./git.ts"
import { placeOf } from "./place.ts"
import { type Ports, portsOf } from "./ports.ts"
import { type Terminals, terminalsOf } from "./terminals.ts"

/** A sandbox, and what can be done in it. It is not asked whether it is there until something is. */
export interface Sandbox {
  readonly id: SandboxId
  readonly commands: Commands
  readonly files: Files
  readonly pty: Terminals
  readonly ports: Ports
  readonly git: Git
  get(options?: CallOptions): Promise<SandboxView>
  /** Resolves when it is ready for prompts. Rejects when its boot fails, with what it ended of. */
  ready(options?: CallOptions): Promise<SandboxView>
  /** How it booted, step by step. */
  boot(options?: CallOptions): Promise<BootTrace>
  /** With its workspace's files. Refused while somebody uses it, unless forced. */
  remove(options?: RemoveOptions): Promise<void>
}

export interface RemoveOptions extends CallOptions {
  readonly force?: boolean
}

export interface Sandboxes {
  /** The current sandbox of the workspace, made if there is none. Resolves when it has started; it boots on. */
  create(spec: CreateSandboxInput, options?: CallOptions): Promise<Sandbox>
  /** Oldest first. */
  list(options?: CallOptions): Promise<SandboxView[]>
  /** Of one that exists. */
  get(id: string, options?: CallOptions): Promise<SandboxView>
  /** One that is known by its id. */
  at(id: string): Sandbox
  remove(id: string, options?: RemoveOptions): Promise<void>
}

/** The server's first one waits for the toolbox to be built. */
const CREATE_DEADLINE_MS = 300_000

/** A sandbox has its time to end in order. */
const REMOVE_DEADLINE_MS = 60_000

/** Setup hooks alone may take half an hour. */
const READY_DEADLINE_MS = 60 * 60_000

export const sandboxesOf = (connection: Connection): Sandboxes => {
  const at = (id: string): Sandbox => sandboxAt(connection, idOf(id))
  return {
    at,
    create: async (spec, options) => {
      const ask = { method: "POST", path: "/v1/sandboxes", json: spec } as const
      const deadline = { deadlineMs: CREATE_DEADLINE_MS, ...options }
      const { identity } = await call(connection, ask, SandboxView, deadline)
      return at(identity.sandbox)
    },
    list: async (options) =>
      (await call(connection, { path: "/v1/sandboxes" }, SandboxList, options)).sandboxes,
    get: async (id, options) => await at(id).get(options),
    remove: async (id, options) => await at(id).remove(options),
  }
}

const sandboxAt = (connection: Connection, id: SandboxId): Sandbox => {
  const place = placeOf(connection, id)
  const path = place.at("")
  const get: Sandbox["get"] = (options) => call(connection, { path }, SandboxView, options)
  return {
    id,
    commands: commandsOf(place),
    files: filesOf(place),
    pty: terminalsOf(place),
    ports: portsOf(place),
    git: gitOf(place),
    get,
    ready: async ({ signal, deadlineMs = READY_DEADLINE_MS } = {}) => {
      const endMs = performance.now() + deadlineMs
      for (;;) {
        const leftMs = Math.max(1, Math.floor(endMs - performance.now()))
        const waitMs = Math.min(MAX_WAIT_MS, leftMs)
        const ask = { path: `${path}?wait=${waitMs}` }
        const view = await call(connection, ask, SandboxView, {
          ...{ signal, deadlineMs: waitMs + connection.deadlineMs },
        })
        if (isReady(view)) return view
        if (performance.now() >= endMs)
          throw new BerthError("deadline.exceeded", `${id} was not ready within ${deadlineMs} ms`, {
            details: { sandbox: id, deadlineMs },
          })
      }
    },
    boot: (options) => call(connection, { path: place.at("/boot") }, BootTrace, options),
    remove: ({ force = false, ...options } = {}) => {
      const ask = { method: "DELETE", path: force ? `${path}?force=true` : path } as const
      return command(connection, ask, { deadlineMs: REMOVE_DEADLINE_MS, ...options })
    },
  }
}

/** Throws when it will never be. */
const isReady = ({ phase, boot, identity: { sandbox }, exit }: SandboxView): boolean => {
  if (phase === "ready" || phase === "paused") return true
  const isHopeless = boot?.ending || phase === "gone" || phase === "stopping"
  if (!isHopeless) return false
  const why = boot?.ending?.reason ?? `it has ended (${exit?.reason ?? phase})`
  throw new BerthError("boot.failed", `${sandbox} did not boot: ${why}`, {
    details: { sandbox, step: boot?.ending?.step ?? undefined },
  })
}

const idOf = (text: string): SandboxId => {
  const parsed = SandboxId.safeParse(text)
  if (parsed.success) return parsed.data
  throw new BerthError("input.invalid", `${text} is not the id of a sandbox, which begins with sb-`)
}
