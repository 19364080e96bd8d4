import Sqlite from "better-sqlite3"
import { Kysely } from "kysely"
import { expect, it, onTestFinished } from "vitest"
import { storeDialect } from "../dialect.ts"
import { leases } from "./0009-leases.ts"
import { MIGRATIONS } from "./list.ts"

const SESSION = "ses-0123456789abcdefghjk"
const PROMPT = "pr-0123456789abcdefghjk"

/** Makes a database of the version before with these rows, and migrates it. */
const upgrade = async (rows: Readonly<Record<string, readonly object[]>>) => {
  const database = new Sqlite(":memory:")
  onTestFinished(() => void database.close())
  const db = new Kysely<unknown>({ dialect: storeDialect(database) })
  const run = (migrations: typeof MIGRATIONS) =>
    db.transaction().execute(async (trx) => {
      for (const { up } of migrations) await up(trx)
    })
  await run(MIGRATIONS.slice(0, MIGRATIONS.indexOf(leases)))
  for (const [table, all] of Object.entries(rows))
    for (const row of all) {
      const columns = Object.keys(row)
      const places = columns.map((column) => `@${column}`)
      database.prepare(`INSERT INTO ${table} (${columns}) VALUES (${places})`).run(row)
    }
  await run([leases])
  return (query: string) => database.prepare(query).all()
}

const sandbox = (id: string, workspace: string, phase: string) => ({
  id,
  workspace,
  phase,
  config_hash: "ab",
  mode: "fresh",
  phase_at_ms: 2,
  created_at_ms: 1,
})

it("gives each lease its source, its subject and whether it yields, by its kind and holder", async () => {
  const told: [kind: string, holder: string, connection: string | null, wanted: object | null][] = [
    ["hold", "command cmd-1", null, { source: "person", subject: null, yields: 0 }],
    ["prompt", `prompt ${PROMPT}`, null, { source: "prompt", subject: PROMPT, yields: 0 }],
    ["prompt", `running prompt ${PROMPT}`, null, { source: "sandbox", subject: PROMPT, yields: 0 }],
    ["exec", "command cmd-1", null, { source: "sandbox", subject: "cmd-1", yields: 0 }],
    ["terminal", "terminal term-1", null, { source: "sandbox", subject: "term-1", yields: 0 }],
    ["session", "processes left running", null, { source: "sandbox", subject: null, yields: 0 }],
    ["session", `session ${SESSION}`, null, { source: "session", subject: SESSION, yields: 1 }],
    [
      "session",
      `whoever watches ${SESSION}`,
      null,
      { source: "watcher", subject: SESSION, yields: 0 },
    ],
    // Connections ended with the server that had them.
    ["exec", "a running command", "run-1", null],
    ["preview", "a connection to a port", "run-1", null],
  ]
  const all = await upgrade({
    sandboxes: [sandbox("sb-1", "shop", "ready")],
    leases: told.map(([kind, holder, connection], index) => ({
      id: `ls-${index}`,
      sandbox: "sb-1",
      kind,
      holder,
      connection,
      acquired_at_ms: index,
      ttl_ms: null,
    })),
  })
  expect(
    all("SELECT kind, holder, source, subject, yields FROM leases ORDER BY acquired_at_ms"),
  ).toEqual(
    told.flatMap(([kind, holder, , wanted]) =>
      wanted === null ? [] : [{ kind, holder, ...wanted }],
    ),
  )
})

it("detaches sandboxes whose workspace was removed and quarantined ones, and closes sessions of removed workspaces", async () => {
  const session = (id: string, workspace: string) => ({
    id,
    workspace,
    agent: "{}",
    state: "open",
    on_interrupt: "wait",
    created_at_ms: 1,
  })
  const all = await upgrade({
    workspaces: [{ slug: "shop", spec: "{}", created_at_ms: 1, updated_at_ms: 1 }],
    sandboxes: [
      sandbox("sb-1", "shop", "gone"),
      sandbox("sb-2", "shop", "ready"),
      sandbox("sb-3", "shop", "quarantined"),
      sandbox("sb-4", "removed", "gone"),
      sandbox("sb-5", "lost", "draining"),
    ],
    sessions: [session("ses-1", "shop"), session("ses-2", "removed")],
  })
  expect(all("SELECT id FROM sandboxes WHERE detached = 1 ORDER BY id")).toEqual([
    { id: "sb-3" },
    { id: "sb-4" },
  ])
  expect(all("SELECT id, state FROM sessions ORDER BY id")).toEqual([
    { id: "ses-1", state: "open" },
    { id: "ses-2", state: "closed" },
  ])
})
