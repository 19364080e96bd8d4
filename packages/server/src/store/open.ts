import { readFileSync } from "node:fs"
import { join } from "node:path"
import { InstallationId } from "@berth/protocol/ids"
import { Kysely, type Transaction } from "kysely"
import { openCheckpoints } from "./checkpoints.ts"
import { compact } from "./compact.ts"
import { connect } from "./connect.ts"
import { countCommits } from "./count-commits.ts"
import { createDatabase } from "./create.ts"
import { ensureDataDirectory } from "./data-directory.ts"
import type { Database } from "./database.ts"
import { storeDialect } from "./dialect.ts"
import { durably } from "./durably.ts"
import { EPOCH_EVERY_MS, type EpochStep, openEpoch } from "./epoch.ts"
import { damaged, databaseExists, inspectDatabase } from "./inspect.ts"
import { lockDataDirectory } from "./lock.ts"
import { migrate } from "./migrate.ts"
import { MIGRATIONS } from "./migrations/list.ts"
import type { Migration } from "./migrations/migration.ts"
import { typedError } from "./typed-error.ts"

/**
 * The store of a data directory. There is one connection, and a transaction has it to itself: inside one, query through
 * `trx`; a query through `db` would wait for the transaction that waits for it.
 */
export interface Store {
  readonly installationId: InstallationId
  /** The database was restored from a backup. Its claims about running things have been removed. */
  readonly isRestored: boolean
  /** The machine or its disk stopped while a server ran: the numbers of events have leapt. */
  readonly lostPower: boolean
  /** A commit survives the death of any process, and a power loss once a later commit is durable. */
  readonly db: Kysely<Database>
  /** Runs a transaction that is on disk when the promise resolves. */
  durably<Result>(work: (trx: Transaction<Database>) => Promise<Result>): Promise<Result>
  /** Gives the space of removed rows back to the disk, a little at a time. */
  compact(): Promise<void>
  /** Lets the running transaction end, then closes the file and frees the data directory. */
  close(): Promise<void>
}

export interface StoreOptions {
  readonly dataDir: string
  readonly migrations?: readonly Migration[]
  /** The id of this start of the machine. */
  readonly machine?: string
  readonly at?: (step: EpochStep) => void
}

/** Opens the store of a data directory, for this process alone; makes what is missing. */
export const openStore = async (options: StoreOptions): Promise<Store> => {
  const { dataDir } = options
  ensureDataDirectory(dataDir)
  const lock = await lockDataDirectory(dataDir)
  const path = join(dataDir, "berth.db")
  try {
    return await openDatabase(path, options, lock.release)
  } catch (thrown) {
    lock.release()
    throw typedError(thrown, path)
  }
}

const openDatabase = async (
  path: string,
  { dataDir, migrations = MIGRATIONS, machine = bootId(), at = () => {} }: StoreOptions,
  release: () => void,
): Promise<Store> => {
  if (databaseExists(path)) inspectDatabase(path, migrations.length)
  else await createDatabase(path, migrations)
  const database = connect(path)
  const checkpoints = openCheckpoints(database)
  const commits = countCommits(database)
  const hooks = {
    committing: commits.committing,
    committed: () => {
      commits.committed()
      checkpoints.committed()
    },
  }
  const db = new Kysely<Database>({ dialect: storeDialect(database, hooks) })
  try {
    await migrate(db, migrations)
    const installationId = await readInstallationId(db, path)
    const epoch = await openEpoch({
      db,
      dataDir,
      machine,
      installation: installationId,
      commits,
      at,
    })
    // A failure is not reported here: the next writer runs into it.
    const advance = () => epoch.advance().catch(() => {})
    const advancing = setInterval(() => void advance(), EPOCH_EVERY_MS).unref()
    let closing: Promise<void> | undefined
    const close = () => {
      clearInterval(advancing)
      closing ??= epoch
        .end()
        .catch(() => {})
        .then(checkpoints.close)
        .then(() => db.connection().execute(async () => void database.close()))
        .finally(release)
      return closing
    }
    return {
      installationId,
      isRestored: epoch.isRestored,
      lostPower: epoch.lostPower,
      db,
      durably: (work) => durably(db, work, commits.durable),
      compact: () => compact(database, (step) => db.connection().execute(step)),
      close,
    }
  } catch (thrown) {
    database.close()
    throw thrown
  }
}

const bootId = (): string => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()

const readInstallationId = async (db: Kysely<Database>, path: string): Promise<InstallationId> => {
  const row = await db.selectFrom("installation").select("id").executeTakeFirst()
  const id = InstallationId.safeParse(row?.id)
  if (!id.success) throw damaged(path, ["it has no installation id"])
  return id.data
}
