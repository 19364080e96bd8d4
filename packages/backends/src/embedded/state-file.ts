import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { rm } from "node:fs/promises"
import { basename, join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { SandboxSpec, UnheldLimit } from "@berth/protocol/sandbox"
import { z } from "zod"
import { renamedSpec } from "../earlier-words.ts"
import { ProcessIdentity } from "./process.ts"
import type { SandboxPaths } from "./state-paths.ts"

/**
 * How far a sandbox has come: creating → created → started; any → removing. A sandbox that a new server finds
 * `creating` or `removing` was left by a crash; one that is found `created` may have been started.
 */
const Progress = z.enum(["creating", "created", "started", "removing"])

export const SandboxState = z.strictObject({
  version: z.literal(1),
  spec: z.preprocess(renamedSpec, SandboxSpec),
  progress: Progress,
  createdAt: z.iso.datetime(),
  /** The first id of the sandbox's range on the host, if it is not the installation's. */
  idBase: z.int().positive().optional(),
  /** The sandbox's first process, as the host sees it. */
  init: ProcessIdentity.optional(),
  /** conmon, which outlives the server and keeps the exit status. */
  monitor: ProcessIdentity.optional(),
  /** The system tree that the sandbox stands on. */
  system: z.string().optional(),
  unheldLimits: z.array(UnheldLimit),
})
export type SandboxState = z.infer<typeof SandboxState>

/** The ending of files that do not count until they are renamed. */
export const ASIDE = ".new"

/*
 * A state is read and written synchronously: nothing is forced onto the disk, so the kernel takes it into its memory in a
 * tenth of the time that the thread pool's turns would take.
 */

/** The text of a state; undefined if there is no such sandbox, or only a beginning that a crash interrupted. */
export const readStateText = ({ state: file }: SandboxPaths): string | undefined => {
  try {
    return readFileSync(file, "utf8")
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw thrown
  }
}

export const writeState = ({ state: file }: SandboxPaths, state: SandboxState): void => {
  writeFileSync(`${file}${ASIDE}`, JSON.stringify(state), { mode: 0o600 })
  renameSync(`${file}${ASIDE}`, file)
}

/** Makes the sandbox's directory, with its state and an empty bundle in it: all or nothing. */
export const beginState = async (
  { directory, state: file, bundle }: SandboxPaths,
  state: SandboxState,
): Promise<void> => {
  const aside = `${directory}${ASIDE}`
  try {
    mkdirSync(join(aside, basename(bundle)), { recursive: true, mode: 0o700 })
    writeFileSync(join(aside, basename(file)), JSON.stringify(state), { mode: 0o600 })
    renameSync(aside, directory)
  } catch (thrown) {
    await rm(aside, { recursive: true, force: true })
    throw thrown
  }
}

export const DAMAGED = Symbol("damaged")

/** Only the error of a damaged state becomes DAMAGED: a state that cannot be read for another reason may be whole. */
export const damagedOnly = (thrown: unknown): typeof DAMAGED => {
  if (thrown instanceof BerthError && thrown.code === "backend.state_damaged") return DAMAGED
  throw thrown
}

export const parseState = (text: string, { state: file }: SandboxPaths): SandboxState => {
  try {
    return SandboxState.parse(JSON.parse(text))
  } catch (cause) {
    throw new BerthError("backend.state_damaged", "a sandbox's state file cannot be read", {
      details: { file },
      cause,
    })
  }
}
