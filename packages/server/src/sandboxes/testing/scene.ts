import { setTimeout as pause, setImmediate as turn } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import { newId, type PromptId, type SandboxId, type SessionId, Slug } from "@berth/protocol/ids"
import type { Session } from "@berth/protocol/session"
import { TerminalId } from "@berth/protocol/terminals"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import type Sqlite from "better-sqlite3"
import { leaseRequestOf } from "../../api/proxy/lease-requests.ts"
import { createLogger } from "../../logging/logger.ts"
import { Secrets } from "../../logging/secrets.ts"
import { openPresence, type Presence } from "../../sessions/presence.ts"
import type { Use } from "../requests/use.ts"
import type { Sandboxes } from "../sandboxes.ts"
import { FakeClock } from "./clock.ts"
import { Inside } from "./inside.ts"
import { MemoryBackend } from "./memory-backend.ts"
import { openMemoryHost } from "./memory-host.ts"
import { heldUp } from "./memory-store.ts"
import { type Choose, type PassTime, Schedule } from "./schedule.ts"
import { POLICY } from "./world.ts"

/** More steps than any order takes. */
const MAX_STEPS = 800

/** Calls of an engine that change nothing. */
const READS = new Set(["inspect", "list"])

const SESSION_KEEP_MS = 60_000

/** The wait of a prompt for a sandbox that others still use, before it asks again. */
const PROMPT_RETRY_MS = 50

export interface SceneParts {
  readonly sqlite: Sqlite.Database
  /** The time for which the sandbox has been unused when the actors come. */
  readonly idleMs: number
  readonly choose: Choose
  readonly passTime: PassTime
}

interface Length {
  /** The use lasts until every other actor is done, and not only for a moment. */
  readonly isLong?: boolean
}

/** A workspace with a sandbox that is ready, and what actors do with it. */
export interface Scene {
  /** Runs a command. */
  use(length?: Length): Promise<void>
  /** Runs a prompt of the scene's session, where the session is if it keeps a sandbox. */
  prompt(length?: Length): Promise<void>
  /** Watches the session whose last prompt ran in the sandbox. */
  watch(): Promise<void>
  hold(length?: Length): Promise<void>
  /** Opens a terminal, and comes back to it by another connection. */
  terminal(length?: Length): Promise<void>
  /** Brings the workspace up as it is now, or changed. */
  up(version: number): Promise<void>
  stop(): Promise<void>
  reconcile(): Promise<void>
}

export type Actor = (scene: Scene) => Promise<void>

/**
 * Notes violations in the statement that commits them: later statements of the same transaction, or of others, could
 * hide them.
 */
export const watchStore = (sqlite: Sqlite.Database): void => {
  sqlite.exec(`
    CREATE TEMP TABLE wrong (what TEXT NOT NULL);
    CREATE TEMP TRIGGER stops_in_use BEFORE UPDATE OF phase ON main.sandboxes
      WHEN NEW.phase = 'stopping' AND NEW.stop_cause <> 'ended'
        AND EXISTS (SELECT 1 FROM main.leases WHERE sandbox = NEW.id AND yields = 0)
      BEGIN INSERT INTO wrong VALUES ('stopping in use'); END;
    CREATE TEMP TRIGGER leased_after_end AFTER INSERT ON main.leases
      WHEN (SELECT phase FROM main.sandboxes WHERE id = NEW.sandbox) IN ('stopping', 'gone')
      BEGIN INSERT INTO wrong VALUES ('leased though stopping'); END;
    CREATE TEMP TRIGGER goes_backwards AFTER UPDATE OF phase ON main.sandboxes
      WHEN OLD.phase IN ('stopping', 'gone') AND NEW.phase NOT IN ('stopping', 'gone')
      BEGIN INSERT INTO wrong VALUES ('back from its end'); END;
    CREATE TEMP TRIGGER two_current AFTER UPDATE OF phase ON main.sandboxes
      WHEN (SELECT count(*) FROM main.sandboxes WHERE workspace = NEW.workspace
        AND phase IN ('creating', 'booting', 'ready')) > 1
      BEGIN INSERT INTO wrong VALUES ('two current sandboxes'); END;`)
}

/** Plays one order of the actors' steps. Returns the violations, and the order if there were any. */
export const play = async (
  actors: readonly Actor[],
  { sqlite, idleMs, choose, passTime }: SceneParts,
): Promise<{ readonly wrong: readonly string[]; readonly trace: string }> => {
  const schedule = new Schedule(choose, passTime)
  const slug = Slug.parse(`w-${newId.sandbox()}`)
  const clock = new FakeClock()
  const wrong: string[] = []
  const backend = new MemoryBackend(async (call, sandbox) => {
    await (READS.has(call) ? schedule.readPoint("read") : schedule.point(call))
    const isEnd = call === "stop" || call === "remove"
    if (!isEnd || sandbox === undefined) return
    if (sqlite.prepare("SELECT 1 FROM leases WHERE sandbox = ?").get(sandbox) !== undefined)
      wrong.push(`${call} of a sandbox that has a lease`)
  })
  const insides = new Map<SandboxId, Inside>()
  const insideOf = (sandbox: SandboxId): Inside => {
    const inside = insides.get(sandbox) ?? new Inside()
    insides.set(sandbox, inside)
    return inside
  }
  const sandboxes = await openMemoryHost({
    backend,
    clock,
    policy: POLICY,
    db: heldUp(sqlite, {
      beforeRead: () => schedule.readPoint("read"),
      beforeWrite: () => schedule.point("write"),
    }),
    boot: () => schedule.point("boot"),
    inside: (sandbox) => ({
      answer: async (...question) => {
        await schedule.point("ask")
        return await insideOf(sandbox).answer(...question)
      },
    }),
  })
  const { sandbox } = await sandboxes.workspaces.up(specOf(slug, 1), { mode: "fresh" }, signal)
  await sandboxes.running.booted(sandbox, signal)
  const last = { sandbox }
  const presence = openPresence({
    rows: { get: async () => OPEN, lastSandbox: async () => last.sandbox },
    sandboxes: { ...sandboxes.use, ...sandboxes.running },
    sessionKeepMs: SESSION_KEEP_MS,
    log,
  })
  // A first use ends here: from then on the sandbox is idle.
  await (await sandboxes.use.begin(sandbox, leaseRequestOf("commands"), signal)).end()
  clock.pass(idleMs)
  await turn()

  schedule.begin()
  const look = () => {
    const rows = sqlite.prepare("SELECT phase FROM sandboxes WHERE workspace = ?").all(slug)
    if (backend.liveOf(slug).length > 1) wrong.push("two that live")
    return (rows as { phase: string }[]).map(({ phase }) => phase)
  }
  const scene = sceneOf({
    slug,
    sandbox,
    sandboxes,
    presence,
    last,
    insideOf,
    backend,
    schedule,
    wrong,
    look,
  })
  const waiting = new Set(actors)
  for (const [index, actor] of actors.entries())
    void schedule
      .enter(`${index + 1}`, () => actor(scene))
      .catch((thrown) => wrong.push(String(thrown)))
      .finally(() => waiting.delete(actor))
  await schedule.run(MAX_STEPS, () => waiting.size === 0)
  // By now every actor must be done, and nothing may be left half done.
  for (const actor of waiting) wrong.push(`still waits: ${actor}`)
  const phases = look().filter((phase) => phase !== "gone")
  if (phases.some((phase) => phase !== "ready")) wrong.push(`ends ${phases.join(", ")}`)
  if (phases.length !== backend.liveOf(slug).length) wrong.push("the engine has another number")
  schedule.end()
  presence.close()
  await sandboxes.close()
  const noted = sqlite.prepare("SELECT what FROM wrong").all() as { what: string }[]
  wrong.push(...noted.map(({ what }) => what))
  sqlite.exec(
    "DELETE FROM wrong; DELETE FROM leases; DELETE FROM sandboxes; DELETE FROM workspaces; DELETE FROM decisions",
  )
  return { wrong, trace: wrong.length > 0 ? schedule.trace.join(" ") : "" }
}

const { signal } = new AbortController()

const OPEN = { state: "open" } as Partial<Session> as Session

const log = await createLogger({
  level: "fatal",
  pretty: false,
  secrets: new Secrets(),
  destination: { write: () => {} },
})

const specOf = (slug: Slug, version: number): WorkspaceSpec =>
  WorkspaceSpec.parse({ slug, environment: { VERSION: String(version) } })

interface StageParts {
  readonly slug: Slug
  readonly sandbox: SandboxId
  readonly sandboxes: Sandboxes
  readonly presence: Presence
  /** The sandbox in which the session's last prompt ran. */
  readonly last: { sandbox: SandboxId }
  readonly insideOf: (sandbox: SandboxId) => Inside
  readonly backend: MemoryBackend
  readonly schedule: Schedule
  readonly wrong: string[]
  readonly look: () => void
}

const sceneOf = ({
  slug,
  sandbox,
  sandboxes,
  presence,
  last,
  insideOf,
  backend,
  schedule,
  wrong,
  look,
}: StageParts): Scene => {
  const session: SessionId = newId.session()

  const check = (used: SandboxId, when: string, states: readonly string[]) => {
    const state = backend.stateOf(used) ?? "not there"
    if (!states.includes(state)) wrong.push(`${state} ${when}`)
    look()
  }
  /** Checks that a used sandbox is there from the beginning of the use to its end. */
  const stay = async (used: SandboxId, what: string, { isLong = false }: Length) => {
    // The sandbox may be paused by a decision that was just made, and is resumed again without being asked.
    check(used, `when ${what} begins`, ["running", "paused"])
    await schedule.point(what)
    check(used, `during ${what}`, ["running", "paused"])
    if (!isLong) return
    await schedule.idle()
    check(used, `during ${what}, when all is done`, ["running"])
  }
  /**
   * Finds a sandbox as the driver of prompts does: the session's own, else the workspace's current one, as soon as
   * there is one.
   */
  const findUse = async (prompt: PromptId): Promise<Use> => {
    const claim = { kind: "prompt", source: "prompt", subject: prompt, holder: prompt } as const
    for (;;) {
      const kept = await presence.of(session)
      try {
        if (kept !== undefined) return await sandboxes.use.useOnly(kept, claim)
      } catch (thrown) {
        if (codeOf(thrown) !== "sandbox.ended") throw thrown
      }
      try {
        return await sandboxes.use.useOf(slug, claim, signal)
      } catch (thrown) {
        if (codeOf(thrown) !== "workspace.draining") throw thrown
        await pause(PROMPT_RETRY_MS)
      }
    }
  }

  return {
    use: async (length = {}) => {
      const use = await sandboxes.use.begin(sandbox, leaseRequestOf("commands"), signal)
      await stay(use.sandbox, "a command", length)
      await use.end()
    },
    prompt: async (length = {}) => {
      const prompt = newId.prompt()
      const use = await findUse(prompt)
      last.sandbox = use.sandbox
      const work = new AbortController()
      const kept = presence.work(session, work.signal)
      insideOf(use.sandbox).change({ prompts: [prompt] })
      await stay(use.sandbox, "a prompt", length)
      insideOf(use.sandbox).change({ prompts: [] })
      work.abort()
      await Promise.all([use.leave(), kept])
      await use.end()
    },
    watch: async () => {
      const watching = new AbortController()
      presence.watch(session, watching.signal)
      await schedule.idle()
      watching.abort()
    },
    hold: async ({ isLong = false } = {}) => {
      const held = await sandboxes.requests.hold(sandbox, { holder: "a person" }, signal)
      await schedule.point("hold")
      if (isLong) await schedule.idle()
      // Fails if the lease is not there any more.
      await sandboxes.requests.release(held.sandbox, held.id)
    },
    terminal: async (length = {}) => {
      const id = TerminalId.parse(`term-${newId.sandbox().slice(3)}`)
      const opening = await sandboxes.use.begin(sandbox, leaseRequestOf("terminals"), signal)
      const inside = insideOf(opening.sandbox)
      inside.change({ terminals: [{ id, viewers: 0 }] })
      await opening.leave()
      await opening.end()
      const looking = await sandboxes.use.begin(
        opening.sandbox,
        leaseRequestOf("terminals"),
        signal,
      )
      if (looking.sandbox !== opening.sandbox) wrong.push("a terminal was taken away")
      inside.change({ terminals: [{ id, viewers: 1 }] })
      await stay(looking.sandbox, "a terminal", length)
      inside.change({ terminals: [] })
      await looking.end()
    },
    up: async (version) => {
      await sandboxes.workspaces.up(specOf(slug, version), { mode: "fresh" }, signal)
    },
    stop: async () => {
      try {
        const stopped = await sandboxes.requests.stop(sandbox, { force: false })
        if (backend.stateOf(stopped) !== undefined) wrong.push("a stopped sandbox is there")
      } catch (thrown) {
        if (codeOf(thrown) !== "sandbox.in_use") throw thrown
      }
    },
    reconcile: async () => {
      const { sandboxes: all } = await sandboxes.reconcile({ dryRun: false })
      for (const { error } of all) if (error !== undefined) wrong.push(error.message)
    },
  }
}

const codeOf = (thrown: unknown): string | undefined =>
  thrown instanceof BerthError ? thrown.code : undefined
