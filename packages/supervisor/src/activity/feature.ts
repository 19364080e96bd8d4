import { MAX_ACTIVITY_WAIT_MS } from "@berth/protocol/activity-limits"
import { BerthError } from "@berth/protocol/errors"
import type { ActivityTracker } from "../features/activity-tracker.ts"
import { sendJson } from "../features/body.ts"
import type { Feature } from "../features/feature.ts"
import type { FeatureParts } from "../features/parts.ts"
import { LeftProcesses, type LeftProcessesParts } from "../processes/tree/left-processes.ts"
import { ActivityWatch } from "./watch.ts"

export interface ActivityParts extends Pick<LeftProcessesParts, "bootProcesses"> {
  readonly tracker: ActivityTracker
  /** Resolves when the prompts that an earlier supervisor left are known. Until then the activity is unknown. */
  readonly promptsKnown: Promise<unknown>
}

/** Reports the sandbox's activity, as `activity.ts` of the protocol describes it. */
export const activityFeature = (
  { clock, user }: FeatureParts,
  { tracker, promptsKnown, bootProcesses }: ActivityParts,
): Feature => {
  const processes = new LeftProcesses({ clock, user, bootProcesses })
  const watch = new ActivityWatch({ clock, tracker, left: () => processes.count() })
  return {
    http: [
      {
        method: "GET",
        path: "/activity",
        handle: async ({ query, response, signal }) => {
          const after = numberIn(query, "after", Number.MAX_SAFE_INTEGER)
          const waitMs = numberIn(query, "wait", MAX_ACTIVITY_WAIT_MS) ?? 0
          await promptsKnown
          const activity = after === undefined ? watch.now() : watch.after(after, waitMs, signal)
          sendJson(response, 200, await activity)
        },
      },
    ],
    sockets: [],
    close: async () => {},
  }
}

const numberIn = (query: URLSearchParams, name: string, atMost: number): number | undefined => {
  const text = query.get(name)
  if (text === null) return undefined
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (number <= atMost) return number
  throw new BerthError("input.invalid", `${name} is not a number from 0 to ${atMost}`)
}
