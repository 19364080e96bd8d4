import { BerthError } from "@berth/protocol/errors"
import { nearest } from "./nearest.ts"
import type { KeyEntry } from "./schema.ts"

/** A mistake in the configuration. */
export interface Problem {
  /** The key's path; that of an unknown key is spelled as it was given. */
  readonly path: string
  /** The file, variable or flag that the value came from. */
  readonly source: string
  readonly given?: string
  readonly allowed?: string
  readonly didYouMean?: string
  /** The whole problem in a sentence. */
  readonly message: string
}

/** The text shown in the place of a secret's value. */
export const HIDDEN = "(hidden)"

const MAX_SHOWN_CHARS = 80

export const badValue = (key: KeyEntry, value: unknown, source: string): Problem => {
  const { name: path, allowed } = key
  const given = key.secret === true ? HIDDEN : show(value)
  const message = `${path}: ${given} is not allowed (from ${source}); allowed: ${allowed}`
  return { path, source, given, allowed, message }
}

/** The value of an unknown key is never shown: it may be a secret under a mistyped name. */
export const unknownKey = (path: string, known: readonly string[], source: string): Problem => {
  const didYouMean = nearest(path, known)
  const allowed = known.join(", ")
  const advice = didYouMean === undefined ? `known are ${allowed}` : `did you mean ${didYouMean}?`
  return {
    path,
    source,
    allowed,
    ...(didYouMean === undefined ? {} : { didYouMean }),
    message: `${path}: unknown key (from ${source}); ${advice}`,
  }
}

export const invalidConfig = (problems: readonly Problem[]): BerthError =>
  new BerthError(
    "config.invalid",
    problems.length === 1
      ? "the configuration has a mistake"
      : `the configuration has ${problems.length} mistakes`,
    { details: { problems } },
  )

const show = (value: unknown): string => {
  const text = JSON.stringify(value) ?? String(value)
  return text.length <= MAX_SHOWN_CHARS ? text : `${text.slice(0, MAX_SHOWN_CHARS)}…`
}
