import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId } from "@berth/protocol/ids"
import { userOf } from "@berth/protocol/lease"
import type { Session } from "@berth/protocol/session"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it, onTestFinished } from "vitest"
import { createLogger } from "../logging/logger.ts"
import { Secrets } from "../logging/secrets.ts"
import { openRows } from "../sandboxes/state/rows.ts"
import { FakeClock } from "../sandboxes/testing/clock.ts"
import { MemoryBackend } from "../sandboxes/testing/memory-backend.ts"
import { openMemoryHost } from "../sandboxes/testing/memory-host.ts"
import { storeOfFile } from "../sandboxes/testing/store.ts"
import { POLICY } from "../sandboxes/testing/world.ts"
import { openPresence } from "./presence.ts"

const { signal } = new AbortController()
const store = storeOfFile()
const log = await createLogger({
  level: "fatal",
  pretty: false,
  secrets: new Secrets(),
  destination: { write: () => {} },
})

const open = { state: "open" } as Partial<Session> as Session

/** Sets up a session whose last prompt was given to a sandbox that is still there. */
const setUp = async (slug: string, sessionKeepMs: number, read = async () => open) => {
  const clock = new FakeClock()
  const sandboxes = await openMemoryHost({
    db: store.db,
    backend: new MemoryBackend(),
    clock,
    policy: POLICY,
  })
  onTestFinished(() => sandboxes.close())
  await sandboxes.adopt(signal)
  const { sandbox } = await sandboxes.workspaces.up(
    WorkspaceSpec.parse({ slug }),
    { mode: "fresh" },
    signal,
  )
  const rows = { get: read, lastSandbox: async (): Promise<SandboxId> => sandbox }
  const openWith = (keepMs: number) => {
    const opened = openPresence({
      rows,
      sandboxes: { ...sandboxes.use, ...sandboxes.running },
      sessionKeepMs: keepMs,
      log,
    })
    onTestFinished(() => opened.close())
    return opened
  }
  const presence = openWith(sessionKeepMs)
  const session = newId.session()
  return {
    session,
    sandbox,
    clock,
    openWith,
    leases: async () => (await sandboxes.views.get(sandbox, signal)).leases,
    watcher: `whoever watches ${session}`,
    watch: () => {
      const watching = new AbortController()
      presence.watch(session, watching.signal)
      return watching
    },
    /** The users of the sandbox once everything that was begun or ended until now is handled. */
    users: async () => {
      const work = new AbortController()
      await presence.work(session, work.signal)
      work.abort()
      return (await sandboxes.views.get(sandbox, signal)).leases.map(userOf)
    },
    usersNow: async () => (await sandboxes.views.get(sandbox, signal)).leases.map(userOf),
  }
}

it("[R1.7] keeps the sandbox in use for a watcher that comes while the last others leave", async () => {
  const last = { isSeenTo: Promise.withResolvers<void>(), goOn: Promise.withResolvers<void>() }
  let reads = 0
  const { watch, watcher, users, usersNow } = await setUp("watched", 0, async () => {
    // Two begin together, and end together.
    if (++reads === 2) {
      last.isSeenTo.resolve()
      await last.goOn.promise
    }
    return open
  })
  const others = [watch(), watch()]
  await expect.poll(usersNow).toEqual([watcher])
  for (const other of others) other.abort()
  await last.isSeenTo.promise
  watch()
  last.goOn.resolve()
  await expect.poll(usersNow).toEqual([watcher])
  const later = watch()
  expect(await users()).toEqual([watcher])
  later.abort()
  expect(await users()).toEqual([watcher])
})

it("[R1.7] keeps the sandbox in use for its watchers when the server stops, for the next one", async () => {
  const { watch, watcher, users } = await setUp("stopped", 0)
  const [one, other] = [watch(), watch()]
  expect(await users()).toEqual([watcher])
  one.abort()
  other.abort(new BerthError("server.stopping", "the server is stopping"))
  expect(await users()).toEqual([watcher])
})

it("[R1.7] reads the store again that could not be read when a watcher came", async () => {
  let failures = 1
  const { watch, watcher, session, usersNow } = await setUp("failing", 150, async () => {
    if (failures-- > 0) throw new BerthError("store.busy", "somebody has it")
    return open
  })
  watch()
  await expect.poll(usersNow).toEqual([`session ${session}`, watcher])
})

it("[R1.7] keeps a sandbox in use that was presumed dead, for the session that goes on in it", async () => {
  const { watch, watcher, session, sandbox, clock, users } = await setUp("revived", 60_000)
  watch()
  const both = expect.arrayContaining([`session ${session}`, watcher])
  expect(await users()).toEqual(both)
  const rows = openRows(store.db, clock)
  await rows.beginStopRegardless(sandbox, { cause: "ended", reason: "its engine has lost it" })
  await rows.revive(sandbox, "ready")
  expect(await users()).toEqual(both)
})

it("[R1.7] keeps the sandbox for the time of the server under which the session goes on", async () => {
  const { users, session, leases, clock, openWith } = await setUp("longer", 1_000)
  expect(await users()).toEqual([`session ${session}`])
  await openWith(60_000).work(session, signal)
  expect((await leases()).map(({ expiresAt }) => expiresAt)).toEqual([
    new Date(clock.now() + 60_000).toISOString(),
  ])
  const kept = store.db.selectFrom("leases").select("ttl_ms")
  expect(await kept.where("holder", "=", `session ${session}`).execute()).toEqual([
    { ttl_ms: 60_000 },
  ])
})

it("[R1.7] reads the store less than ten times for 300 watchers that come and leave together", async () => {
  let reads = 0
  const { watch, watcher, usersNow } = await setUp("crowded", 0, async () => {
    reads++
    return open
  })
  const crowd = Array.from({ length: 300 }, () => watch())
  await expect.poll(usersNow).toEqual([watcher])
  for (const one of crowd) one.abort()
  await expect.poll(usersNow).toEqual([])
  expect(reads).toBeLessThan(10)
})
