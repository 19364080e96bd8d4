import { setTimeout as pause } from "node:timers/promises"
import type { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId, SessionId } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import type { Bells } from "../events/bells.ts"
import type { LeaseRequest, Use } from "../sandboxes/requests/use.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { agentChanged } from "./agent-changed.ts"
import { errorOf, isEnded } from "./failures.ts"
import type { Presence } from "./presence.ts"
import { FIRST_RETRY_MS, nextRetryMs } from "./retry.ts"
import type { OpenPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"
import type { Waits } from "./waits.ts"

export interface DeliverParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  readonly sandboxes: Pick<UsedSandboxes, "useOf" | "useOnly" | "kept" | "putFile">
  readonly presence: Pick<Presence, "of">
  readonly waits: Waits
  /** Rings when something has changed for a session's prompts. */
  readonly bells: Bells<SessionId>
  readonly fail: (prompt: PromptId, error: BerthError) => Promise<void>
}

/** Give up on getting a sandbox after this long. An engine restart takes less. */
const PATIENCE_MS = 10 * 60_000

/**
 * Reasons to wait that end by themselves: other users finish, a toolbox is built. They do not count against the
 * patience.
 */
const PASSING: ReadonlySet<string> = new Set(["workspace.draining", "toolbox.preparing"])

export const claimOf = (prompt: PromptId): LeaseRequest => ({
  kind: "prompt",
  source: "prompt",
  subject: prompt,
  holder: `prompt ${prompt}`,
})

/**
 * Finds a sandbox for a queued prompt and notes in the store that the prompt is assigned to it. Returns undefined if
 * the prompt has ended instead.
 */
export const openDeliver = (parts: DeliverParts) => {
  const { stored, sandboxes, presence, waits, bells } = parts
  const { rows, changes } = stored

  const deliver = async (prompt: OpenPrompt, signal: AbortSignal): Promise<Use | undefined> => {
    const { id, session } = prompt
    const ended = whenEnded(prompt, signal)
    const either = AbortSignal.any([signal, ended.signal])
    const startedMs = performance.now()
    let told = ""
    try {
      for (let waitMs = FIRST_RETRY_MS; ; waitMs = nextRetryMs(waitMs)) {
        try {
          return await offer(await findUse(prompt, either), prompt, either)
        } catch (thrown) {
          if (either.aborted) return undefined
          const error = errorOf(thrown)
          const isPassing = PASSING.has(error.code)
          const isPatient = isPassing || performance.now() - startedMs < PATIENCE_MS
          if (error.retry === "never" || !isPatient) {
            await parts.fail(id, error)
            return undefined
          }
          waits.set(id, { code: error.code, message: () => error.message })
          if (error.message !== told) {
            told = error.message
            const { code, message } = error
            await changes.tell(session, { type: "prompt.waiting", prompt: id, code, message })
          }
          // The call itself has waited for these reasons already.
          if (isPassing) waitMs = FIRST_RETRY_MS
          await pause(waitMs, undefined, { signal: either }).catch(() => {})
        }
      }
    } finally {
      ended.release()
      waits.clear(id)
    }
  }

  /** Uses the sandbox that the session keeps, if any: nobody who works in a sandbox is sent to another. */
  const findUse = async (
    { id, session, workspace }: OpenPrompt,
    signal: AbortSignal,
  ): Promise<Use> => {
    const kept = await presence.of(session)
    try {
      if (kept !== undefined) return await sandboxes.useOnly(kept, claimOf(id))
    } catch (thrown) {
      if (!isEnded(thrown)) throw thrown
    }
    // A reason that was found before stays until the next one is known.
    if (waits.of(id) === null)
      waits.set(id, {
        code: "sandbox.starting",
        message: () => `the sandbox of ${workspace} is made or woken`,
      })
    return await sandboxes.useOf(workspace, claimOf(id), signal, (sandbox) =>
      waits.set(id, { code: "sandbox.booting", message: () => sayBoot(sandbox) }),
    )
  }

  const sayBoot = (sandbox: SandboxId): string => {
    const running = bootOf(sandbox)?.running ?? []
    return running.length === 0
      ? `${sandbox} boots`
      : `${sandbox} boots, and is at ${running.join(", ")}`
  }

  const bootOf = (sandbox: SandboxId) => {
    try {
      return sandboxes.kept(sandbox).boot
    } catch {
      // The sandbox has ended meanwhile.
      return undefined
    }
  }

  const offer = async (
    use: Use,
    { id, session, workspace, agent }: OpenPrompt,
    signal: AbortSignal,
  ): Promise<Use | undefined> => {
    try {
      // The agent may have been changed while the prompt waited, and a wish to one agent may be a command to another.
      // Every sandbox runs the shell; one whose supervisor cannot is of an earlier toolbox, and is replaced before it
      // is used.
      const there = sandboxes.kept(use.sandbox).agent
      if (there !== agent && agent !== "shell")
        throw agentChanged({ session, workspace, was: agent, is: there })
      for (const { name, content } of await rows.attachments(id))
        await sandboxes.putFile(use.sandbox, attachmentPath(id, name), content, signal)
      if (await changes.assign(id, use.sandbox)) return use
      await use.end()
      return undefined
    } catch (thrown) {
      await use.end()
      throw thrown
    }
  }

  /** Fires when the prompt waits no more, as when it is stopped. */
  const whenEnded = ({ id, session }: OpenPrompt, signal: AbortSignal) => {
    const ended = new AbortController()
    const done = new AbortController()
    const watch = async () => {
      const until = AbortSignal.any([signal, done.signal])
      while (!until.aborted) {
        const rung = bells.next(session, until)
        if (!(await rows.isPending(id))) return ended.abort()
        await rung
      }
    }
    void watch().catch(() => {})
    return { signal: ended.signal, release: () => done.abort() }
  }

  return deliver
}

/** The path of an attachment: in the home, so that later readers of the conversation find the file. */
export const attachmentPath = (prompt: PromptId, name: string): string =>
  `${AGENT_USER.home}/attachments/${prompt}/${name}`
