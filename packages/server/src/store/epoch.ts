import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { type Kysely, sql, type Transaction } from "kysely"
import { z } from "zod"
import { syncDirectory } from "../owned/directory.ts"
import type { Database } from "./database.ts"
import { disbelieve } from "./disbelieve.ts"
import { durably } from "./durably.ts"

/** The same number stands in the database. */
const EPOCH_FILE = "epoch"

/** A backup that is younger than this, and of the run that a crash ended, is taken for the database itself. */
export const EPOCH_EVERY_MS = 60_000

/** Told of every step after which a crash must do no harm: tests crash there. */
export type EpochStep = "epoch.stored" | "epoch.written"

export interface EpochParts {
  readonly db: Kysely<Database>
  readonly dataDir: string
  readonly at: (step: EpochStep) => void
}

export interface Epoch {
  /** The database was put back from a copy that is older than what this data directory had. */
  readonly isRestored: boolean
  /** Raises it if anything was written since the last time: a copy of before is told from now on. */
  advance(): Promise<void>
}

/**
 * A number in the database and in a file beside it, raised together. The database is first, and on disk before the
 * file is: so it is never behind, whatever a crash leaves, unless somebody put back an old one.
 */
export const openEpoch = async ({ db, dataDir, at }: EpochParts): Promise<Epoch> => {
  const path = join(dataDir, EPOCH_FILE)
  const noted = readEpoch(path)
  let changes = 0

  const raise = async (
    before: (trx: Transaction<Database>, epoch: number) => Promise<void>,
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
    writeEpoch(path, raised, at)
  }

  let isRestored = false
  await raise(async (trx, epoch) => {
    isRestored = epoch < noted
    if (isRestored) await disbelieve(trx, Date.now())
  })
  return {
    isRestored,
    advance: async () => {
      if ((await totalChanges(db)) !== changes) await raise(async () => {})
    },
  }
}

/** How many rows this connection has written. */
const totalChanges = async (db: Kysely<Database>): Promise<number> => {
  const { rows } = await sql<{ changes: number }>`SELECT total_changes() AS changes`.execute(db)
  return rows[0]?.changes ?? 0
}

/** A data directory that has no such file, or one that somebody wrote into, says nothing. */
const readEpoch = (path: string): number => {
  try {
    return z.coerce.number().int().min(0).catch(0).parse(readFileSync(path, "utf8").trim())
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return 0
    throw thrown
  }
}

const writeEpoch = (path: string, epoch: number, at: EpochParts["at"]): void => {
  const draft = `${path}.new`
  const file = openSync(draft, "w", 0o600)
  try {
    writeFileSync(file, `${epoch}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  at("epoch.written")
  renameSync(draft, path)
  syncDirectory(dirname(path))
}
