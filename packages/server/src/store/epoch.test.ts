import { cpSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { newId, Slug } from "@berth/protocol/ids"
import { ConfigHash } from "@berth/protocol/sandbox"
import { sql } from "kysely"
import { describe, expect, it } from "vitest"
import { LEAP } from "./disbelieve.ts"
import type { EpochStep } from "./epoch.ts"
import { openStore, type Store } from "./open.ts"
import { makeDataDir } from "./testing/data-dir.ts"
import { openForTest } from "./testing/open-for-test.ts"
import { addWorkspace, workspaceSlugs } from "./testing/workspaces.ts"

const FILES = ["berth.db", "berth.db-wal", "berth.db-shm"]

/** Copies the files of a server that may be running, as a person does. */
const copyDatabase = (from: string, to: string): void => {
  for (const name of FILES) {
    rmSync(join(to, name), { force: true })
    if (existsSync(join(from, name))) cpSync(join(from, name), join(to, name))
  }
}

const addLeases = async ({ db }: Store): Promise<void> => {
  const sandbox = newId.sandbox()
  await db
    .insertInto("sandboxes")
    .values({
      id: sandbox,
      workspace: Slug.parse("shop"),
      mode: "fresh",
      phase: "ready",
      config_hash: ConfigHash.parse("0".repeat(64)),
      created_at_ms: 1,
      phase_at_ms: 1,
      stop_cause: null,
      stop_reason: null,
    })
    .execute()
  for (const kind of ["prompt", "exec", "session", "hold"] as const)
    await db
      .insertInto("leases")
      .values({
        id: newId.lease(),
        sandbox,
        kind,
        holder: kind,
        acquired_at_ms: 1,
        ttl_ms: null,
        source: "sandbox",
        subject: null,
        yields: 0,
      })
      .execute()
}

const leaseKinds = async ({ db }: Store): Promise<string[]> =>
  (await db.selectFrom("leases").select("kind").orderBy("kind").execute()).map(({ kind }) => kind)

describe("a database that was put back from a backup", () => {
  it("[R1.9] is noticed, and its leases of prompts and commands are dropped", async () => {
    const [dataDir, backup] = [makeDataDir(), makeDataDir()]
    const first = await openForTest({ dataDir })
    await addLeases(first)
    copyDatabase(dataDir, backup)
    await addWorkspace(first.db, "later")
    await first.close()
    const whole = await openForTest({ dataDir })
    expect([whole.isRestored, await leaseKinds(whole)]).toEqual([
      false,
      ["exec", "hold", "prompt", "session"],
    ])
    await whole.close()

    copyDatabase(backup, dataDir)
    const restored = await openForTest({ dataDir })
    expect(restored.isRestored).toBe(true)
    expect(await leaseKinds(restored)).toEqual(["hold", "session"])
    expect(await workspaceSlugs(restored.db)).toEqual([])
    await restored.close()

    const after = await openForTest({ dataDir })
    expect(after.isRestored).toBe(false)
    await after.close()
    copyDatabase(backup, dataDir)
    expect((await openForTest({ dataDir })).isRestored).toBe(true)
  })

  it("is noticed also after an older one was put back", async () => {
    const [dataDir, older, newer] = [makeDataDir(), makeDataDir(), makeDataDir()]
    await (await openForTest({ dataDir })).close()
    copyDatabase(dataDir, older)
    for (let start = 0; start < 3; start += 1) await (await openForTest({ dataDir })).close()
    copyDatabase(dataDir, newer)
    for (const backup of [older, newer]) {
      copyDatabase(backup, dataDir)
      const store = await openForTest({ dataDir })
      expect(store.isRestored).toBe(true)
      await store.close()
    }
  })

  it("is noticed also if the server had stopped in order", async () => {
    const [dataDir, backup] = [makeDataDir(), makeDataDir()]
    await (await openForTest({ dataDir })).close()
    copyDatabase(dataDir, backup)
    await (await openForTest({ dataDir })).close()
    copyDatabase(backup, dataDir)
    expect((await openForTest({ dataDir })).isRestored).toBe(true)
  })

  it("keeps its leases when nothing was written after the backup", async () => {
    const [dataDir, backup] = [makeDataDir(), makeDataDir()]
    const store = await openForTest({ dataDir })
    await addLeases(store)
    await store.close()
    copyDatabase(dataDir, backup)
    copyDatabase(backup, dataDir)
    const again = await openForTest({ dataDir })
    expect([again.isRestored, (await leaseKinds(again)).length]).toEqual([false, 4])
  })
})

describe("a store whose server did not end in order", () => {
  /** Copies the files of a running server, as a kill would leave them. */
  const leftBehind = async (fill: (store: Store) => Promise<void>) => {
    const [dataDir, left] = [makeDataDir(), makeDataDir()]
    const store = await openForTest({ dataDir, machine: "one" })
    await fill(store)
    copyDatabase(dataDir, left)
    return { left, note: readFileSync(join(dataDir, "epoch"), "utf8") }
  }
  const addSession = async ({ db }: Store): Promise<void> => {
    await addWorkspace(db, "shop")
    const session = newId.session()
    await sql`INSERT INTO sessions (id, workspace, agent, state, on_interrupt, created_at_ms, last_event)
      VALUES (${session}, 'shop', '{}', 'open', 'stop', 1, 7)`.execute(db)
  }
  const asNoted = (dataDir: string, note: string) => {
    const { ino, birthtimeNs } = statSync(join(dataDir, "berth.db"), { bigint: true })
    writeFileSync(join(dataDir, "epoch"), note.replace(/ .*/, ` ${ino}-${birthtimeNs}`))
  }
  const events = async ({ db }: Store) =>
    await db.selectFrom("events").select(["sequence", "type"]).execute()

  it("leaps in the numbers of events when the machine was started again since", async () => {
    const { left, note } = await leftBehind(addSession)
    asNoted(left, note)
    const store = await openForTest({ dataDir: left, machine: "two" })
    expect([store.lostPower, store.isRestored]).toEqual([true, false])
    expect(await events(store)).toEqual([{ sequence: 7 + LEAP, type: "gap" }])
    await store.close()
    expect((await openForTest({ dataDir: left, machine: "three" })).lostPower).toBe(false)
  })

  it("goes on with the next number when only the server was killed", async () => {
    const { left, note } = await leftBehind(addSession)
    asNoted(left, note)
    const store = await openForTest({ dataDir: left, machine: "one" })
    expect([store.lostPower, store.isRestored, await events(store)]).toEqual([false, false, []])
  })

  it("notices a copy in the database's place that was just made", async () => {
    const { left, note } = await leftBehind(addSession)
    writeFileSync(join(left, "epoch"), note)
    const store = await openForTest({ dataDir: left, machine: "one" })
    expect([store.lostPower, store.isRestored]).toEqual([false, true])
  })
})

const crash = (at: EpochStep) => (step: EpochStep) => {
  if (step === at) throw new Error(`crashed at ${step}`)
}

describe.each<EpochStep>(["epoch.stored", "epoch.written"])("a crash at %s", (step) => {
  it("is not taken for a restore, also three times in a row", async () => {
    const dataDir = makeDataDir()
    await (await openForTest({ dataDir })).close()
    for (let round = 0; round < 3; round += 1)
      await expect(openStore({ dataDir, at: crash(step) })).rejects.toThrow("crashed at")
    expect((await openForTest({ dataDir })).isRestored).toBe(false)
  })

  it("does not bring back the leases of a restored database", async () => {
    const [dataDir, backup] = [makeDataDir(), makeDataDir()]
    const first = await openForTest({ dataDir })
    await addLeases(first)
    copyDatabase(dataDir, backup)
    await addWorkspace(first.db, "later")
    await first.close()
    copyDatabase(backup, dataDir)
    await expect(openStore({ dataDir, at: crash(step) })).rejects.toThrow("crashed at")
    expect(await leaseKinds(await openForTest({ dataDir }))).toEqual(["hold", "session"])
  })
})

describe("the file of the epoch", () => {
  it("holds the number of the epoch alone while nothing is written to the store", async () => {
    const dataDir = makeDataDir()
    await (await openForTest({ dataDir })).close()
    expect(readFileSync(join(dataDir, "epoch"), "utf8")).toBe("1\n")
  })

  it.each([undefined, "", "garbage", "-4"])("is ignored and renewed if it is %j", async (text) => {
    const dataDir = makeDataDir()
    await (await openForTest({ dataDir })).close()
    if (text === undefined) rmSync(join(dataDir, "epoch"))
    else writeFileSync(join(dataDir, "epoch"), text)
    const store = await openForTest({ dataDir })
    expect(store.isRestored).toBe(false)
    expect(readFileSync(join(dataDir, "epoch"), "utf8")).toMatch(/^2\n/)
  })
})
