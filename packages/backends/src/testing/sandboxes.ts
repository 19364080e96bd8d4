import { type InstallationId, newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { SandboxConfig, type SandboxExit, type SystemIdentity } from "@berth/protocol/sandbox"
import { expect, vi } from "vitest"
import type { z } from "zod"
import type { Backend } from "../backend.ts"
import { configHash } from "../config-hash.ts"

export type ConfigInput = Partial<z.input<typeof SandboxConfig>>

/** On a busy machine, no sandbox of the tests takes longer to reach an awaited state. */
export const POLL = { timeout: 30_000, interval: 10 }

export interface Sandboxes {
  boot(command: readonly string[], config?: ConfigInput): Promise<SandboxId>
  /** Waits for a sandbox that ends by itself, and returns its exit. */
  ended(sandbox: SandboxId): Promise<SandboxExit>
  /** Waits until the sandbox has written these words, and returns its whole output. */
  said(sandbox: SandboxId, words: string | RegExp): Promise<string>
  /** Boots a sandbox, waits for its end and removes it. */
  run(
    command: readonly string[],
    config?: ConfigInput,
  ): Promise<{ readonly exit: SandboxExit; readonly output: string }>
}

interface Options {
  readonly backend: Pick<Backend, "create" | "start" | "inspect" | "logs" | "remove">
  readonly installation: InstallationId
  readonly system: SystemIdentity
}

/** Runs sandboxes of a backend, for tests that look at what happens inside. */
export const sandboxesOf = ({ backend, installation, system }: Options): Sandboxes => {
  const boot: Sandboxes["boot"] = async (command, config = {}) => {
    const whole = SandboxConfig.parse({ system, ...config, command })
    const sandbox = newId.sandbox()
    const workspace = Slug.parse("isolation")
    const identity = { installation, workspace, sandbox, configHash: configHash(whole) }
    await backend.create({ identity, config: whole })
    await backend.start(sandbox)
    return sandbox
  }
  const ended: Sandboxes["ended"] = (sandbox) => {
    return vi.waitFor(async () => {
      const exit = (await backend.inspect(sandbox))?.exit
      if (exit === undefined) throw new Error("the sandbox has not ended")
      return exit
    }, POLL)
  }
  return {
    boot,
    ended,
    said(sandbox, words) {
      return vi.waitFor(async () => {
        const output = await backend.logs(sandbox)
        expect(output).toMatch(words)
        return output
      }, POLL)
    },
    async run(command, config) {
      const sandbox = await boot(command, config)
      try {
        const exit = await ended(sandbox)
        return { exit, output: await backend.logs(sandbox) }
      } finally {
        await backend.remove(sandbox)
      }
    },
  }
}
