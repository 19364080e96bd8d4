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
import type { CommitCounter } from "./count-commits.ts"
import type { Database } from "./database.ts"
import { disbelieve, leap } from "./disbelieve.ts"
import { durably } from "./durably.ts"
import { openWitness } from "./witness.ts"

/** The file with the epoch; the same number is in the database. */
const EPOCH_FILE = "epoch"

/**
 * How often the file with the epoch is written. A copy that is younger than this, from a run that ended in a crash, is
 * recognised by the witness, or by being another file: not if it was written over the database and the machine has
 * started anew since.
 */
export const EPOCH_EVERY_MS = 60_000

/** The steps after which a crash must do no harm: tests crash there. */
export type EpochStep = "epoch.stored" | "epoch.written"

export interface EpochParts {
  readonly db: Kysely<Database>
  readonly dataDir: string
  /** The id of this start of the machine: under another one, commits that were not synced may be lost. */
  readonly machine: string
  readonly installation: string
  readonly commits: CommitCounter
  readonly at: (step: EpochStep) => void
}

export interface Epoch {
  /** The database was restored from a copy that is older than the last state of this data directory. */
  readonly isRestored: boolean
  /** The machine or its disk stopped while a server ran: the last events may be lost, and numbers have leapt. */
  readonly lostPower: boolean
  /** Writes the file if anything was written since the last time: an earlier copy is recognised from then on. */
  advance(): Promise<void>
  /** Writes the file for the last time, and notes that nothing is lost even if the machine stops. */
  end(): Promise<void>
}

/**
 * Opens the epoch: a number in the database that each commit raises, and that a file beside it follows. The database
 * comes first, and is on disk before the file is: so it is never behind after a crash, unless somebody restored an old
 * one.
 */
export const openEpoch = async (parts: EpochParts): Promise<Epoch> => {
  const { db, dataDir, machine, installation, commits, at } = parts
  const path = join(dataDir, EPOCH_FILE)
  const { epoch: noted, running } = readNote(path)
  const file = identityOf(join(dataDir, "berth.db"))
  const witness = openWitness(dataDir, installation)
  commits.begin(witness)
  let changes = 0

  const raise = async (
    before: (trx: Transaction<Database>, epoch: number) => Promise<void>,
    now: Running | undefined,
  ): Promise<void> => {
    const work = async (trx: Transaction<Database>) => {
      const { epoch } = await trx
        .selectFrom("installation")
        .select("epoch")
        .executeTakeFirstOrThrow()
      await before(trx, epoch)
      // The commit itself makes it one more.
      const most = Math.max(epoch, noted, witness.found?.last ?? 0)
      await trx.updateTable("installation").set({ epoch: most }).execute()
    }
    await durably(db, work, commits.durable)
    const raised = await epochIn(db)
    changes = await totalChanges(db)
    at("epoch.stored")
    writeNote(path, { epoch: raised, running: now }, at)
  }

  const self: Running = { machine, file }
  let isRestored = false
  let lostPower = false
  const judge = async (trx: Transaction<Database>, epoch: number) => {
    // If another file has taken the database's place after a run that did not end in order, it is a copy from before
    // that end. One without a commit that was synced is a copy as well; one that lacks only others may have lost them.
    const seen = running?.machine === machine ? witness.found : undefined
    const isReplaced = running !== undefined && running.file !== file
    isRestored = epoch < noted || isReplaced || (seen !== undefined && epoch < seen.durable)
    const stopped = running !== undefined && running.machine !== machine
    lostPower = !isRestored && (stopped || (seen !== undefined && epoch < seen.last))
    if (isRestored) await disbelieve(trx, Date.now())
    if (lostPower) await leap(trx, Date.now())
  }
  try {
    await raise(judge, self)
  } catch (thrown) {
    witness.close()
    throw thrown
  }
  const advance = async (now: Running | undefined): Promise<void> => {
    if ((await totalChanges(db)) !== changes) await raise(async () => {}, now)
    else if (now === undefined) writeNote(path, { epoch: await epochIn(db), running: now }, at)
  }
  return {
    isRestored,
    lostPower,
    advance: async () => {
      witness.touch()
      await advance(self)
    },
    end: async () => {
      await advance(undefined)
      witness.remove()
    },
  }
}

const epochIn = async (db: Kysely<Database>): Promise<number> =>
  (await db.selectFrom("installation").select("epoch").executeTakeFirstOrThrow()).epoch

/** The identity of a file: an inode's number alone is soon used again. */
const identityOf = (path: string): string => {
  const { ino, birthtimeNs } = statSync(path, { bigint: true })
  return `${ino}-${birthtimeNs}`
}

/** The number of rows that this connection has written. */
const totalChanges = async (db: Kysely<Database>): Promise<number> => {
  const { rows } = await sql<{ changes: number }>`SELECT total_changes() AS changes`.execute(db)
  return rows[0]?.changes ?? 0
}

/** The run of a server that has not ended in order: the start of the machine, and the database file. */
interface Running {
  readonly machine: string
  readonly file: string
}

interface Note {
  readonly epoch: number
  readonly running: Running | undefined
}

/** Reads the note. A missing file, or one that somebody edited, counts as empty. */
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
