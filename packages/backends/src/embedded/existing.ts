import type { SandboxId } from "@berth/protocol/ids"
import type { StateDirectory } from "./state.ts"
import type { SandboxState } from "./state-file.ts"

/** The sandboxes that exist for callers: those on disk, without those that are being made or removed. */
export class ExistingSandboxes {
  readonly #states: Pick<StateDirectory, "read" | "readAll">
  readonly #underWay = new Set<SandboxId>()

  constructor(states: Pick<StateDirectory, "read" | "readAll">) {
    this.#states = states
  }

  async find(sandbox: SandboxId): Promise<SandboxState | undefined> {
    return this.#underWay.has(sandbox) ? undefined : this.#states.read(sandbox)
  }

  async findAll(): Promise<SandboxState[]> {
    const all = await this.#states.readAll()
    return all.filter(({ spec }) => !this.#underWay.has(spec.identity.sandbox))
  }

  /** Hides a sandbox while `work` makes or removes it. What failed work leaves behind exists again. */
  async hideDuring<Result>(sandbox: SandboxId, work: () => Promise<Result>): Promise<Result> {
    this.#underWay.add(sandbox)
    try {
      return await work()
    } finally {
      this.#underWay.delete(sandbox)
    }
  }
}
