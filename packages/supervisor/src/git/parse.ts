import { BerthError } from "@berth/protocol/errors"
import type { FilePath } from "@berth/protocol/files"
import {
  GIT_REVISION,
  MAX_GIT_COMMITS,
  MAX_GIT_MESSAGE_CHARS,
  MAX_GIT_NAME_CHARS,
  MAX_GIT_PATHS,
} from "@berth/protocol/git-limits"
import { fromWire, isBytes } from "../files/work/bytes.ts"
import { type Check, listOf, object, text, textLike } from "../shape.ts"

const repo: Check = (value, at) =>
  text(value, at) ?? (/^[^\0]+$/.test(value as string) ? undefined : `${at} is no path`)

const path: Check = (value, at) => {
  const problem = isBytes(value, at)
  if (problem !== undefined) return problem
  const bytes = fromWire(value as FilePath)
  return bytes.length > 0 && !bytes.includes(0) ? undefined : `${at} is no path`
}

const paths: Check = (value, at) =>
  listOf(path, 1)(value, at) ??
  ((value as unknown[]).length > MAX_GIT_PATHS ? `${at} is too long` : undefined)

const message: Check = (value, at) => {
  const problem = text(value, at)
  if (problem !== undefined) return problem
  const words = value as string
  const isRight =
    words.length <= MAX_GIT_MESSAGE_CHARS && words.trim() !== "" && !words.includes("\0")
  return isRight
    ? undefined
    : `${at} must hold some words, at most ${MAX_GIT_MESSAGE_CHARS} characters`
}

const person: Check = (value, at) =>
  textLike(/^[^\0\n<>]*[^\0\n<>\s.,:;"'\\][^\0\n<>]*$/)(value, at) ??
  ((value as string).length > MAX_GIT_NAME_CHARS ? `${at} is too long` : undefined)

const isTrue: Check = (value, at) => (value === true ? undefined : `${at} is not true`)

/** Checks a `GitCommitRequest`. */
export const commitRequest: Check = object(
  { repo, message },
  { author: object({ name: person, email: person }), all: isTrue, paths },
)

const revision = textLike(GIT_REVISION)

const limit: Check = (value, at) => {
  const number = /^\d{1,9}$/.test(String(value)) ? Number(value) : 0
  return number >= 1 && number <= MAX_GIT_COMMITS
    ? undefined
    : `${at} is not a number from 1 to ${MAX_GIT_COMMITS}`
}

const CHECKS = { repo, base: revision, head: revision, ref: revision, path, limit }
type Key = Exclude<keyof typeof CHECKS, "repo">

/** Reads a query: the repo, and those of these keys that it has. */
export const readQuery = <Keys extends Key>(query: URLSearchParams, ...keys: readonly Keys[]) => {
  const said: Record<string, unknown> = {}
  for (const [key, value] of query) {
    if (key === "path64") said.path = { base64: value }
    else said[key] = value
  }
  const optional = Object.fromEntries(keys.map((key) => [key, CHECKS[key]]))
  const problem = object({ repo }, optional)(said, "query")
  if (problem !== undefined) throw new BerthError("input.invalid", problem)
  if (said.limit !== undefined) said.limit = Number(said.limit)
  return said as { repo: string } & {
    [K in Keys]?: K extends "path" ? FilePath : K extends "limit" ? number : string
  }
}
