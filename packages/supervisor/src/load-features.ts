import type { ActivityParts } from "./activity/feature.ts"
import type { Features } from "./features/feature.ts"
import type { FeatureParts } from "./features/parts.ts"

/** The features for clients of a sandbox, by the first part of the path. Each is loaded when it is first used. */
export const loadFeatures = (parts: FeatureParts, activity: ActivityParts): Features => ({
  commands: async () =>
    (await import("./commands/feature.ts")).commandsFeature(parts, activity.tracker),
  terminals: async () =>
    (await import("./terminals/feature.ts")).terminalsFeature(parts, activity.tracker),
  ports: async () => (await import("./ports/feature.ts")).portsFeature(parts),
  git: async () => (await import("./git/feature.ts")).gitFeature(parts),
  files: async () => (await import("./files/feature.ts")).filesFeature(parts),
  activity: async () => (await import("./activity/feature.ts")).activityFeature(parts, activity),
})
