/** A thread that moves commits from the write-ahead log into the database: one message, one checkpoint. */
import { parentPort, workerData } from "node:worker_threads"
import Database from "better-sqlite3"

const database = new Database(workerData as string, { fileMustExist: true })
// The log is on disk before the database is written from it.
database.pragma("synchronous = NORMAL")

parentPort?.on("message", () => {
  // A passive checkpoint waits for nobody, and nobody waits for it.
  database.pragma("wal_checkpoint(PASSIVE)")
  parentPort?.postMessage("done")
})
