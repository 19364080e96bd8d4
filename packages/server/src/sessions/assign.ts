import type { PromptId, SandboxId } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import type { LeaseRequest, Use } from "../sandboxes/requests/use.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { agentChanged } from "./agent-changed.ts"
import { isEnded } from "./failures.ts"
import type { Presence } from "./presence.ts"
import type { OpenPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"
import type { Waits } from "./waits.ts"

export interface AssignParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  readonly sandboxes: Pick<UsedSandboxes, "useOf" | "useOnly" | "kept" | "putFile">
  readonly presence: Pick<Presence, "of">
  readonly waits: Waits
}

/** The lease of a prompt on its sandbox. */
export const promptLease = (prompt: PromptId): LeaseRequest => ({
  kind: "prompt",
  source: "prompt",
  subject: prompt,
  holder: `prompt ${prompt}`,
})

/**
 * Finds a sandbox for a queued prompt, gives it the attachments, and notes in the store that the prompt is assigned to
 * it. Returns undefined if the prompt has ended instead.
 */
export const openAssign = ({ stored, sandboxes, presence, waits }: AssignParts) => {
  const { rows, changes } = stored

  /** Uses the sandbox that the session keeps, if any: nobody who works in a sandbox is sent to another. */
  const findUse = async (
    { id, session, workspace }: OpenPrompt,
    signal: AbortSignal,
  ): Promise<Use> => {
    const kept = await presence.of(session)
    try {
      if (kept !== undefined) return await sandboxes.useOnly(kept, promptLease(id))
    } catch (thrown) {
      if (!isEnded(thrown)) throw thrown
    }
    // A reason that was found before stays until the next one is known.
    if (waits.of(id) === null)
      waits.set(id, {
        code: "sandbox.starting",
        message: () => `the sandbox of ${workspace} is made or woken`,
      })
    return await sandboxes.useOf(workspace, promptLease(id), signal, (sandbox) =>
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

  /** Gives the sandbox what the prompt needs. Returns whether the prompt is assigned to it. */
  const offer = async (
    { sandbox }: Use,
    { id, session, workspace, agent }: OpenPrompt,
    signal: AbortSignal,
  ): Promise<boolean> => {
    // The agent may have been changed while the prompt waited, and a wish to one agent may be a command to another.
    // Every sandbox runs the shell; one whose supervisor cannot is of an earlier toolbox, and is replaced before it
    // is used.
    const there = sandboxes.kept(sandbox).agent
    if (there !== agent && agent !== "shell")
      throw agentChanged({ session, workspace, was: agent, is: there })
    for (const { name, content } of await rows.attachments(id))
      await sandboxes.putFile(sandbox, attachmentPath(id, name), content, signal)
    return await changes.assign(id, sandbox)
  }

  return async (prompt: OpenPrompt, signal: AbortSignal): Promise<Use | undefined> => {
    const use = await findUse(prompt, signal)
    try {
      if (await offer(use, prompt, signal)) return use
    } catch (thrown) {
      await use.end()
      throw thrown
    }
    await use.end()
    return undefined
  }
}

/** The path of an attachment: in the home, so that later readers of the conversation find the file. */
export const attachmentPath = (prompt: PromptId, name: string): string =>
  `${AGENT_USER.home}/attachments/${prompt}/${name}`
