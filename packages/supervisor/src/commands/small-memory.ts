import { setFlagsFromString } from "node:v8"

/**
 * Many commands at once leave much garbage that lived for a moment. V8 makes its space for such things larger
 * with each collection, by 50 MB in all, and does not give that back; it is left as small as it is.
 */
export const keepMemorySmall = (): void => setFlagsFromString("--semi-space-growth-factor=1")
