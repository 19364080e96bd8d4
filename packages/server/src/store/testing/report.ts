import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { toWireError } from "@berth/protocol/errors"

/** What a script did, a line each, for the test that started it. */
export const say = (line: unknown): void => console.log(JSON.stringify(line))

/** The code of the error that the promise rejects with, or what it resolved to. */
export const outcomeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.catch((thrown: unknown) => toWireError(thrown).code)

export const databaseDigest = (dataDir: string): string =>
  createHash("sha256")
    .update(readFileSync(join(dataDir, "berth.db")))
    .digest("hex")
