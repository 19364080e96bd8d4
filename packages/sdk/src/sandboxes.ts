import { BootTrace } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { Lease } from "@berth/protocol/lease"
import {
  type CreateSandboxInput,
  type HoldSandbox,
  MAX_WAIT_MS,
  NamedSandbox,
  SandboxList,
  SandboxView,
  SandboxWhy,
} from "@berth/protocol/sandboxes"
import { type CallOptions, type Connection, call, command } from "./call.ts"
import { type Commands, commandsOf } from "./commands.ts"
import { CREATE_DEADLINE_MS, type CreateOptions, create } from "./create.ts"
import { type Files, filesOf } from "./files.ts"
import { type ForkOptions, fork } from "./fork.ts"
import { type Git, gitOf } from "./git.ts"
import { placeOf } from "./place.ts"
import { type Ports, portsOf } from "./ports.ts"
import { type Terminals, terminalsOf } from "./terminals.ts"

/**
 * A sandbox, and the calls in it. Whether it exists is known only with the first call. The id of a workspace's earlier
 * sandbox leads to the current one, whose id is in the answers.
 */
export interface Sandbox {
  readonly id: SandboxId
  readonly commands: Commands
  readonly files: Files
  readonly pty: Terminals
  readonly ports: Ports
  readonly git: Git
  get(options?: CallOptions): Promise<SandboxView>
  /** Resolves when the sandbox is ready for prompts. Rejects when its boot fails, with the reason. */
  ready(options?: ReadyOptions): Promise<SandboxView>
  /** The boot, step by step. */
  boot(options?: CallOptions): Promise<BootTrace>
  /**
   * Makes another workspace like its own, on a copy of its files, with a sandbox that boots on. Takes the time that the
   * copy needs; a signal cancels it, and leaves nothing.
   */
  fork(to: string, options?: ForkOptions): Promise<Forked>
  /** The decisions about the sandbox and their reasons, latest first; also for one that is gone. */
  why(options?: CallOptions): Promise<SandboxWhy>
  /** Keeps the sandbox until it is released, or the time is over. A stopped one is started. */
  hold(hold: HoldSandbox, options?: CallOptions): Promise<Lease>
  /** Ends a hold. */
  release(lease: string, options?: CallOptions): Promise<void>
  /**
   * Stops the sandbox and keeps its files: the next use starts it again. Refused while somebody uses it, unless forced.
   */
  stop(options?: EndOptions): Promise<void>
  /**
   * Lets a halted sandbox go on for a quarter of an hour, so that files can be deleted in it. All its processes but the
   * supervisor are ended. It is halted again if its files grow, and if they still take too much at the end.
   */
  makeRoom(options?: CallOptions): Promise<SandboxView>
  /** Gives the files of a quarantined sandbox back to its workspace: the next use starts it again. */
  recover(options?: CallOptions): Promise<SandboxView>
  /** Removes the sandbox with its workspace's files. Refused while somebody uses it, unless forced. */
  remove(options?: EndOptions): Promise<void>
}

export interface Forked extends Sandbox {
  /** How long the sandbox whose files were copied stood still; 0: it did not run. */
  readonly stoodStillMs: number
}

export interface NamedOptions extends CallOptions {
  /** Chooses the quarantined one of several of that name. */
  readonly quarantined?: boolean
  /** Starts a stopped workspace again; the answer is its new sandbox. */
  readonly start?: boolean
}

export interface ReadyOptions extends CallOptions {
  /** Called with the current steps of the boot, in words, once a second while it goes on. */
  readonly onWait?: (reason: string) => void
}

export interface EndOptions extends CallOptions {
  readonly force?: boolean
}

export interface Sandboxes {
  /**
   * Gives the current sandbox of the workspace, made if there is none. Resolves when it has started; it boots on. Waits
   * while somebody uses a sandbox whose workspace has changed.
   */
  create(spec: CreateSandboxInput, options?: CreateOptions): Promise<Sandbox>
  /** The sandboxes, oldest first. */
  list(options?: CallOptions): Promise<SandboxView[]>
  /** Reads a sandbox that exists. */
  get(id: string, options?: CallOptions): Promise<SandboxView>
  /** The sandbox of that name: an id, the beginning of an id, or a workspace. */
  named(name: string, options?: NamedOptions): Promise<NamedSandbox>
  /** A sandbox by its id, without a call. */
  at(id: string): Sandbox
  remove(id: string, options?: EndOptions): Promise<void>
}

/** A sandbox has its grace period. */
const END_DEADLINE_MS = 60_000

/** How often callers that wait for a boot are told its step. */
const TELL_EVERY_MS = 1_000

/** Setup hooks alone may take half an hour. */
const READY_DEADLINE_MS = 60 * 60_000

export const sandboxesOf = (connection: Connection): Sandboxes => {
  const at = (id: string): Sandbox => sandboxAt(connection, idOf(id))
  return {
    at,
    create: async (spec, options) => at((await create(connection, spec, options)).identity.sandbox),
    list: async (options) =>
      (await call(connection, { path: "/v1/sandboxes" }, SandboxList, options)).sandboxes,
    get: async (id, options) => await at(id).get(options),
    named: (name, { quarantined = false, start = false, ...options } = {}) => {
      const query = `quarantined=${quarantined}&start=${start}`
      const path = `/v1/names/${encodeURIComponent(name)}?${query}`
      return call(connection, { path }, NamedSandbox, {
        deadlineMs: CREATE_DEADLINE_MS,
        ...options,
      })
    },
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
    ready: async ({ signal, onWait, deadlineMs = READY_DEADLINE_MS } = {}) => {
      const endMs = performance.now() + deadlineMs
      const mostMs = onWait === undefined ? MAX_WAIT_MS : TELL_EVERY_MS
      for (;;) {
        const leftMs = Math.max(1, Math.floor(endMs - performance.now()))
        const waitMs = Math.min(mostMs, leftMs)
        const ask = { path: `${path}?wait=${waitMs}` }
        const view = await call(connection, ask, SandboxView, {
          signal,
          deadlineMs: waitMs + connection.deadlineMs,
        })
        if (isReady(view)) return view
        const running = view.boot?.running ?? []
        if (running.length > 0) onWait?.(`the boot is at ${running.join(", ")}`)
        if (performance.now() >= endMs)
          throw new BerthError("deadline.exceeded", `${id} was not ready within ${deadlineMs} ms`, {
            details: { sandbox: id, deadlineMs },
          })
      }
    },
    boot: (options) => call(connection, { path: place.at("/boot") }, BootTrace, options),
    fork: async (to, options) => {
      const { sandbox, stoodStillMs } = await fork(connection, place.at("/fork"), to, options)
      return { ...sandboxAt(connection, sandbox.identity.sandbox), stoodStillMs }
    },
    why: (options) => call(connection, { path: place.at("/why") }, SandboxWhy, options),
    hold: (hold, options) => {
      const ask = { method: "POST", path: place.at("/holds"), json: hold } as const
      return call(connection, ask, Lease, { deadlineMs: CREATE_DEADLINE_MS, ...options })
    },
    release: (lease, options) => {
      const path = place.at(`/holds/${encodeURIComponent(lease)}`)
      return command(connection, { method: "DELETE", path }, options)
    },
    stop: ({ force = false, ...options } = {}) => {
      const ask = { method: "POST", path: place.at("/stop"), json: { force } } as const
      return command(connection, ask, { deadlineMs: END_DEADLINE_MS, ...options })
    },
    makeRoom: (options) => {
      const ask = { method: "POST", path: place.at("/make-room") } as const
      return call(connection, ask, SandboxView, { deadlineMs: END_DEADLINE_MS, ...options })
    },
    recover: (options) => {
      const ask = { method: "POST", path: place.at("/recover") } as const
      return call(connection, ask, SandboxView, { deadlineMs: END_DEADLINE_MS, ...options })
    },
    remove: ({ force = false, ...options } = {}) => {
      const ask = { method: "DELETE", path: force ? `${path}?force=true` : path } as const
      return command(connection, ask, { deadlineMs: END_DEADLINE_MS, ...options })
    },
  }
}

/** Whether the sandbox is ready. Throws when it never will be. */
const isReady = ({ phase, halted, boot, identity: { sandbox }, exit }: SandboxView): boolean => {
  if (halted !== undefined)
    throw new BerthError("sandbox.halted", `${sandbox} is halted: ${halted}`, {
      details: { sandbox, reason: halted },
    })
  if (phase === "ready" || phase === "paused") return true
  // The workspace has changed while somebody uses the sandbox: it goes on, and so may those who wait for it.
  if (phase === "draining" && boot !== null && boot.readyAtMs !== null) return true
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
  throw new BerthError(
    "input.invalid",
    `${text} is not the id of a sandbox: sb- and 20 letters and digits`,
  )
}
