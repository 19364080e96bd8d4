import { abortable } from "@berth/host/abortable"
import type { Activity } from "@berth/protocol/activity"
import type { ActivitiesParts } from "../use/activities.ts"

/** The answers of a supervisor, as the test wants them. */
export class Inside {
  /** How often the supervisor was asked. */
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

  /** Begins or ends something in the sandbox. */
  change(changes: Partial<Activity>): void {
    this.#activity = { ...this.#activity, version: this.#activity.version + 1, ...changes }
    this.#turn()
  }

  /** Lets all questions fail, also those that wait already. */
  silence(isSilent = true): void {
    this.#isSilent = isSilent
    this.#turn()
  }

  readonly answer = async (
    change: Parameters<ActivitiesParts["query"]>[1],
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
