import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { dirname, join } from "node:path"
import { syncDirectory } from "@berth/local/owned/directory"
import { type Kysely, sql, type Transaction } from "kysely"
import { z } from "zod"
import type { Database } from "./database.ts"
import { disbelieve, leap } from "./disbelieve.ts"
import { durably } from "./durably.ts"

/** The same number stands in the database. */
const EPOCH_FILE = "epoch"

/**
 * A copy that is younger than this, and of the run that a crash ended, is told only by being another file: not where it was
 * written over the database.
 */
export const EPOCH_EVERY_MS = 60_000

/** Told of every step after which a crash must do no harm: tests crash there. */
export type EpochStep = "epoch.stored" | "epoch.written"

export interface EpochParts {
  readonly db: Kysely<Database>
  readonly dataDir: string
  /** Names this start of the machine: under another one, commits that were not synced may be lost. */
  readonly machine: string
  readonly at: (step: EpochStep) => void
}

export interface Epoch {
  /** The database was put back from a copy that is older than what this data directory had. */
  readonly isRestored: boolean
  /** The machine stopped while a server ran: the last events may be lost, and numbers have leapt. */
  readonly lostPower: boolean
  /** Raises it if anything was written since the last time: a copy of before is told from now on. */
  advance(): Promise<void>
  /** The last time: notes that nothing is lost, whatever becomes of the machine. */
  end(): Promise<void>
}

/**
 * A number in the database and in a file beside it, raised together. The database is first, and on disk before the
 * file is: so it is never behind, whatever a crash leaves, unless somebody put back an old one.
 */
export const openEpoch = async ({ db, dataDir, machine, at }: EpochParts): Promise<Epoch> => {
  const path = join(dataDir, EPOCH_FILE)
  const { epoch: noted, running } = readNote(path)
  const file = identityOf(join(dataDir, "berth.db"))
  let changes = 0

  const raise = async (
    before: (trx: Transaction<Database>, epoch: number) => Promise<void>,
    now: Running | undefined,
  ): Promise<void> => {
    const raised = await durably(db, async (trx) => {
      const { epoch } = await trx
        .selectFrom("installation")
        .select("epoch")
        .executeTakeFirstOrThrow()
      await before(trx, epoch)
      const next = Math.max(epoch, noted) + 1
      await trx.updateTable("installation").set({ epoch: next }).execute()
      changes = await totalChanges(trx)
      return next
    })
    at("epoch.stored")
    writeNote(path, { epoch: raised, running: now }, at)
  }

  const self: Running = { machine, file }
  let isRestored = false
  let lostPower = false
  await raise(async (trx, epoch) => {
    // A database that another file has taken the place of, after a run that did not end in order, is a copy of before its end.
    isRestored = epoch < noted || (running !== undefined && running.file !== file)
    lostPower = !isRestored && running !== undefined && running.machine !== machine
    if (isRestored) await disbelieve(trx, Date.now())
    if (lostPower) await leap(trx, Date.now())
  }, self)
  const advance = async (now: Running | undefined): Promise<void> => {
    if ((await totalChanges(db)) !== changes) await raise(async () => {}, now)
    else if (now === undefined) writeNote(path, { epoch: await epochIn(db), running: now }, at)
  }
  return {
    isRestored,
    lostPower,
    advance: () => advance(self),
    end: () => advance(undefined),
  }
}

const epochIn = async (db: Kysely<Database>): Promise<number> =>
  (await db.selectFrom("installation").select("epoch").executeTakeFirstOrThrow()).epoch

/** Tells a file from another that has its name: an inode's number alone is soon used again. */
const identityOf = (path: string): string => {
  const { ino, birthtimeNs } = statSync(path, { bigint: true })
  return `${ino}-${birthtimeNs}`
}

/** How many rows this connection has written. */
const totalChanges = async (db: Kysely<Database>): Promise<number> => {
  const { rows } = await sql<{ changes: number }>`SELECT total_changes() AS changes`.execute(db)
  return rows[0]?.changes ?? 0
}

/** The run of a server that has not ended in order: the start of the machine, and the file that its database was. */
interface Running {
  readonly machine: string
  readonly file: string
}

interface Note {
  readonly epoch: number
  readonly running: Running | undefined
}

/** A data directory that has no such file, or one that somebody wrote into, says nothing. */
const readNote = (path: string): Note => {
  try {
    const [epoch, run = ""] = readFileSync(path, "utf8").trim().split("\n")
    const [machine, file] = run.split(" ")
    return {
      epoch: z.coerce.number().int().min(0).catch(0).parse(epoch),
      running: machine && file ? { machine, file } : undefined,
    }
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return { epoch: 0, running: undefined }
    throw thrown
  }
}

const writeNote = (path: string, { epoch, running }: Note, at: EpochParts["at"]): void => {
  const draft = `${path}.new`
  const file = openSync(draft, "w", 0o600)
  try {
    const run = running === undefined ? "" : `${running.machine} ${running.file}\n`
    writeFileSync(file, `${epoch}\n${run}`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  at("epoch.written")
  renameSync(draft, path)
  syncDirectory(dirname(path))
}
