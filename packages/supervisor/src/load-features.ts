import type { Features } from "./features/feature.ts"
import type { FeatureParts } from "./features/parts.ts"

/** What clients can do in a sandbox, by the first part of the path. Each is loaded when it is first used. */
export const loadFeatures = (_parts: FeatureParts): Features => ({})
