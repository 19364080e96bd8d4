import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { SandboxConfig, type SandboxExit, type SandboxSpec } from "@berth/protocol/sandbox"
import { expect } from "vitest"
import type { z } from "zod"
import type { Backend, EngineState } from "../../backend.ts"
import { configHash } from "../../config-hash.ts"
import { WAIT } from "./commands.ts"
import { exitsOf } from "./events.ts"
import type { ContractHarness } from "./harness.ts"

/** Longer than any grace that a well-behaved process needs here. */
export const GRACE_MS = 5_000

type ConfigInput = z.input<typeof SandboxConfig>

/** The backend under test, and the sandboxes that a case makes on it. */
export class ContractTestbed {
  readonly #open: () => Promise<ContractHarness>
  #harness: ContractHarness | undefined
  /** The census before any case. */
  #empty: Readonly<Record<string, number>> = {}
  readonly #made = new Set<SandboxId>()

  constructor(open: () => Promise<ContractHarness>) {
    this.#open = open
  }

  async open(): Promise<void> {
    this.#harness = await this.#open()
    await this.backend.repair()
    this.#empty = await this.#harness.census()
  }

  async close(): Promise<void> {
    await this.#harness?.close()
  }

  get harness(): ContractHarness {
    if (this.#harness === undefined) throw new Error("the backend is not open")
    return this.#harness
  }

  get backend(): Backend {
    return this.harness.backend
  }

  /** Describes a sandbox that is removed after the case. */
  specOf(config: Partial<ConfigInput> = {}, sandbox = newId.sandbox()): SandboxSpec {
    this.#made.add(sandbox)
    const { system, installation } = this.harness
    const whole = SandboxConfig.parse({ system, command: WAIT, ...config })
    const workspace = Slug.parse("contract")
    return {
      identity: { installation, workspace, sandbox, configHash: configHash(whole) },
      config: whole,
    }
  }

  /** Leaves the removal of a sandbox to the case. */
  forget(sandbox: SandboxId): void {
    this.#made.delete(sandbox)
  }

  async removeMade(): Promise<void> {
    await Promise.all([...this.#made].map((sandbox) => this.backend.remove(sandbox)))
    this.#made.clear()
  }

  /** Requires that the installation has on the host what it had before any case. */
  async expectEmpty(): Promise<void> {
    expect(await this.harness.census()).toEqual(this.#empty)
  }

  async boot(config: Partial<ConfigInput> = {}): Promise<SandboxId> {
    const spec = this.specOf(config)
    await this.backend.create(spec)
    await this.backend.start(spec.identity.sandbox)
    return spec.identity.sandbox
  }

  /** Runs a script as the first process, to its end. */
  async run(script: string, config: Partial<ConfigInput> = {}) {
    const spec = this.specOf({ ...config, command: ["/bin/sh", "-c", script] })
    const { sandbox } = spec.identity
    await using exits = exitsOf(this.backend)
    await this.backend.create(spec)
    await this.backend.start(sandbox)
    const exit = await exits.of(sandbox)
    return { sandbox, exit, output: await this.backend.logs(sandbox) }
  }

  /** Stops a sandbox and returns its exit. */
  async stop(sandbox: SandboxId, graceMs = GRACE_MS): Promise<SandboxExit | undefined> {
    await this.backend.stop(sandbox, { graceMs })
    return (await this.backend.inspect(sandbox))?.exit
  }

  async state(sandbox: SandboxId): Promise<EngineState | undefined> {
    return (await this.backend.inspect(sandbox))?.state
  }

  /** Waits until the first process has written these words. */
  async said(sandbox: SandboxId, words: string): Promise<void> {
    await expect.poll(() => this.backend.logs(sandbox), { timeout: 10_000 }).toContain(words)
  }
}
