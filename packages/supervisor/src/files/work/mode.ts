import type { Check } from "../../shape.ts"

/** Accepts permission bits. */
export const isMode: Check = (value, at) =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 0o7777
    ? undefined
    : `${at} is not a mode`
