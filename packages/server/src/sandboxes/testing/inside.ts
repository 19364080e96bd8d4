import type { Activity } from "@berth/protocol/activity"
import { abortable } from "../../host/abortable.ts"
import type { LivesParts } from "../lives.ts"

/** What a supervisor says of its sandbox, as the test wants it. */
export class Inside {
  /** How often it was asked. */
  asked = 0
  #activity: Activity = {
    version: 1,
    prompts: [],
    commands: [],
    terminals: [],
    leftProcesses: 0,
  }
  #isSilent = false
  #changed = Promise.withResolvers<void>()

  /** Something begins or ends in it. */
  change(changes: Partial<Activity>): void {
    this.#activity = { ...this.#activity, version: this.#activity.version + 1, ...changes }
    this.#turn()
  }

  /** Answers nobody, those who wait already neither. */
  silence(isSilent = true): void {
    this.#isSilent = isSilent
    this.#turn()
  }

  readonly answer = async (
    change: Parameters<LivesParts["ask"]>[1],
    signal: AbortSignal,
  ): Promise<Activity> => {
    this.asked += 1
    if (change?.after === this.#activity.version && !this.#isSilent)
      await abortable(this.#changed.promise, signal)
    if (this.#isSilent) throw new Error("it does not answer")
    return this.#activity
  }

  #turn(): void {
    const { resolve } = this.#changed
    this.#changed = Promise.withResolvers()
    resolve()
  }
}
