import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { z } from "zod"
import { readOwned } from "./owned/read.ts"
import { shareFile } from "./owned/share.ts"

/** The note beside the lock that names its holder. It informs people; it never decides. */
const LockHolder = z.object({
  pid: z.number().int().positive(),
  /** The start of the process, which tells it from a later one with the same pid. */
  processStart: z.string(),
  since: z.iso.datetime(),
  /** The address at which the server answers clients, once it does. */
  url: z.url().optional(),
  /** The id of the group that the server shares its token with. */
  group: z.number().int().nonnegative().optional(),
})
export type LockHolder = z.infer<typeof LockHolder>

const ONLY_OWNER = 0o600

const notePath = (dataDir: string): string => join(resolve(dataDir), "server.json")

/**
 * Writes the note. Only the lock's holder writes, so the draft's name can be fixed. The group may read where the server
 * answers.
 */
export const writeLockHolder = (dataDir: string, url?: string, group?: number): void => {
  const note: LockHolder = {
    pid: process.pid,
    processStart: processStart(process.pid) ?? "",
    since: new Date().toISOString(),
    ...(url !== undefined && { url }),
    ...(group !== undefined && { group }),
  }
  const draft = `${notePath(dataDir)}.new`
  writeFileSync(draft, `${JSON.stringify(note)}\n`, { mode: ONLY_OWNER })
  if (group !== undefined) shareFile(draft, group)
  renameSync(draft, notePath(dataDir))
}

/** Removes the note. If that fails, the note misleads nobody: readers check its process. */
export const removeLockHolder = (dataDir: string): void => {
  try {
    rmSync(notePath(dataDir), { force: true })
  } catch {}
}

/**
 * The holder of the lock, if the note was written by a process that still runs. A note that another user can have
 * written is refused: clients send their token and their requests to the address in it.
 */
export const readLockHolder = (dataDir: string): LockHolder | undefined => {
  try {
    const note = readOwned(notePath(dataDir), { followLast: false })
    const holder = LockHolder.parse(JSON.parse(note?.text ?? ""))
    return processStart(holder.pid) === holder.processStart ? holder : undefined
  } catch (thrown) {
    if (thrown instanceof BerthError) throw thrown
    return undefined
  }
}

/** The boot and the clock tick at which the process started, or undefined if none with this pid runs. */
export const processStart = (pid: number): string | undefined => {
  try {
    const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
    // The second field is the command in parentheses, and may itself hold spaces and parentheses.
    const fieldsFromThird = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    // A zombie has ended: only its parent has not reaped it yet.
    if (fieldsFromThird[0] === "Z") return undefined
    return `${bootId}/${fieldsFromThird[START_TIME_FIELD - 3]}`
  } catch {
    return undefined
  }
}

/** proc(5) numbers the fields of `stat` from 1. */
const START_TIME_FIELD = 22
