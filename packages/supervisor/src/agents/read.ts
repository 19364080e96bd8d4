/** A JSON object from an agent. The readers below turn a value of an unexpected type into an empty one or undefined. */
export type Json = Readonly<Record<string, unknown>>

export const objectIn = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {}

export const textIn = (value: unknown): string | undefined =>
  typeof value === "string" ? value : undefined

export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
