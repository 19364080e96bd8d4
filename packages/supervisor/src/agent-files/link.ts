import { readlinkSync, renameSync, symlinkSync, unlinkSync } from "node:fs"
import { basename, dirname, sep } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { User } from "../processes/user.ts"
import type { Roots, Sight } from "./look.ts"
import { namesBeside } from "./names.ts"
import { OpenDirectory } from "./open-directory.ts"

export interface LinkParts {
  readonly user: User | undefined
  /** Makes a link, never over an existing file. Tests pass one that fails. */
  readonly makeLink?: (target: string, path: string) => void
}

export type LinkResult = { readonly done: true } | { readonly done: false; readonly said: string }

/**
 * Links all places to their sources, or none: the first failure undoes the others. It takes a few system calls per file
 * and never waits, so it starts no program.
 */
export const linkAll = (sights: readonly Sight[], roots: Roots, parts: LinkParts): LinkResult => {
  const undoing: (() => void)[] = []
  const opened: OpenDirectory[] = []
  try {
    for (const sight of sights) linkOne(sight, roots, parts, opened, undoing)
    return { done: true }
  } catch (thrown) {
    for (const undo of undoing.reverse()) undo()
    return { done: false, said: thrown instanceof Error ? thrown.message : String(thrown) }
  } finally {
    for (const directory of opened) directory.close()
  }
}

const linkOne = (
  { file, source, standing }: Sight,
  { home, toolbox }: Roots,
  { user, makeLink = symlinkSync }: LinkParts,
  opened: OpenDirectory[],
  undoing: (() => void)[],
): void => {
  let directory = OpenDirectory.open(home)
  opened.push(directory)
  for (const part of dirname(file.to).split("/")) {
    if (part === ".") continue
    directory = directory.enter(part, user)
    opened.push(directory)
  }
  const place = directory.at(basename(file.to))
  if (standing === "stale-link") {
    const target = moveAway(place, toolbox)
    undoing.push(() => symlinkSync(target, place))
  }
  makeLink(source, place)
  undoing.push(() => {
    if (linkTarget(place) === source) unlinkSync(place)
  })
  directory.giveLink(basename(file.to), user)
}

/** Removes a link of ours, and returns its target. The link is renamed first and then checked once more. */
const moveAway = (place: string, toolbox: string): string => {
  const { old } = namesBeside(place)
  renameSync(place, old)
  const target = linkTarget(old)
  if (target?.startsWith(toolbox + sep)) {
    unlinkSync(old)
    return target
  }
  renameSync(old, place)
  throw new BerthError("agent_files.failed", "what stands there was exchanged meanwhile")
}

const linkTarget = (path: string): string | undefined => {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}
